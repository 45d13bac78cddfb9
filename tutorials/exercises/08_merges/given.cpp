#include "exercises/08_merges/exercise.h"

namespace exercise {

std::vector<Pair> train(Tokens text, int count) {
  std::vector<Pair> merges;
  for (int token = 256; token < 256 + count && text.size() > 1; ++token) {
    const Pair pair = most_frequent(text);
    text = merge(text, pair, token);
    merges.push_back(pair);
  }
  return merges;
}

Tokens bytes_of(const std::string& text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string decode(const Tokens& tokens, const std::vector<Pair>& merges) {
  std::string text;
  for (const int token : tokens) {
    if (token < 256) {
      text += static_cast<char>(token);
    } else {
      const Pair& pair = merges.at(static_cast<size_t>(token) - 256);
      text += decode({pair.first, pair.second}, merges);
    }
  }
  return text;
}

}  // namespace exercise
