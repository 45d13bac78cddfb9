// says: merges[i] makes 256 + i
#include <map>

#include "exercises/08_merges/exercise.h"

namespace exercise {

Pair most_frequent(const Tokens& text) {
  std::map<Pair, int> counts;
  for (size_t i = 0; i + 1 < text.size(); ++i) ++counts[{text[i], text[i + 1]}];
  Pair best = counts.begin()->first;
  for (const auto& [pair, count] : counts) {
    if (count > counts[best]) best = pair;
  }
  return best;
}

Tokens merge(const Tokens& text, const Pair& pair, int token) {
  Tokens result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && text[i] == pair.first && text[i + 1] == pair.second) {
      result.push_back(token);
      ++i;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

Tokens encode(const Tokens& bytes, const std::vector<Pair>& merges) {
  Tokens text = bytes;
  for (size_t i = 0; i < merges.size(); ++i) {
    text = merge(text, merges[i], 256);
  }
  return text;
}

}  // namespace exercise
