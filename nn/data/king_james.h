#pragma once
// The King James Bible as a text to train on: 4.4 MB of English in the public domain.
#include <string>

namespace hero::nn::data {

struct KingJamesOptions {
  bool references = true;  ///< keep "Ge1:1 " in front of each verse
};

/// The text, a verse a line, from Genesis to Revelation: the file king_james.txt in the folder
/// named by HERO_DATA, else what the program of Debian's package bible-kjv prints. An Error that
/// names the package where there is neither, or where the program does not print the whole book.
std::string king_james(const KingJamesOptions& options = {});

}  // namespace hero::nn::data
