#pragma once
// Exercise 8: what an answer is given, and the functions that it defines.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exercises/support/answer.h"

namespace exercise {

using Tokens = std::vector<int>;
/// Two neighbours, the left one first.
using Pair = std::pair<int, int>;

/// \name The answer
/// \{
/// The pair of neighbours that occurs most often in a text of two tokens or more; of equally
/// frequent pairs the smallest, as < orders them.
Pair most_frequent(const Tokens& text);
/// The text with `token` in place of every such pair, from left to right.
Tokens merge(const Tokens& text, const Pair& pair, int token);
/// The tokens of a text of bytes. merges[i] is the pair that became token 256 + i, in the order in
/// which they were learned.
Tokens encode(const Tokens& bytes, const std::vector<Pair>& merges);
/// \}

/// Learns so many merges from a text, one after the other, by most_frequent() and merge().
std::vector<Pair> train(Tokens text, int count);
/// The bytes of a text, as the tokens 0 to 255; and the text of tokens.
Tokens bytes_of(const std::string& text);
std::string decode(const Tokens& tokens, const std::vector<Pair>& merges);

}  // namespace exercise
