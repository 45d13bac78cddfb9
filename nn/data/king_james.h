#pragma once
// The King James Bible as a text to train on: 4.4 MB of English in the public domain.
#include <string>

namespace hero::nn::data {

/// Options of king_james().
struct KingJamesOptions {
  bool references = true;  ///< true: each verse begins with its reference, such as "Ge1:1 "
};

/// The text from Genesis to Revelation, with one verse per line: the file king_james.txt in the
/// folder that HERO_DATA names, or else what the program of Debian's package bible-kjv prints.
/// Throws an Error that names the package if there is neither, or if the program does not print the
/// whole book.
std::string king_james(const KingJamesOptions& options = {});

}  // namespace hero::nn::data
