// 8. Byte pair encoding: the merge (chapter 8)
//
// A text begins as its bytes, the tokens 0 to 255. The two neighbours that occur together most
// often are merged: a new token stands for both, wherever they are neighbours. This is done again
// and again, and token 256 + i is what merge i has made. A pair may consist of new tokens, so
// tokens become words. What was learned is the list of pairs, in this order. To encode another
// text, the same merges are made in it.
//
// A pair that overlaps itself, as in a a a, occurs twice there; but when it is merged from left to
// right, the middle one is used up by the first: X a.
//
// What you need of C++:
//   text.size(), text[i]          of a vector, as of a list in Python; i begins at 0
//   result.push_back(token)       appends
//   std::map<Pair, int> counts;   a dictionary whose keys are in order, the smallest first;
//   ++counts[{a, b}];             counts the pair a, b: it begins with 0
//   for (const auto& [pair, count] : counts)      goes through it
//   text[i] == pair.first         the two members of a pair: first and second
#include <map>

#include "exercises/08_merges/exercise.h"

namespace exercise {

Pair most_frequent(const Tokens& text) {
  // WRITE 1: count all neighbours, and return the pair with the largest count. Of equally frequent
  // ones it is the smallest pair.
  to_write("1, most_frequent().");
}

Tokens merge(const Tokens& text, const Pair& pair, int token) {
  Tokens result;
  // WRITE 2: go through the text from left to right. Where the pair stands, the result gets `token`
  // and both are used up; everything else is copied.
  to_write("2, merge().");
  return result;
}

Tokens encode(const Tokens& bytes, const std::vector<Pair>& merges) {
  Tokens text = bytes;
  // WRITE 3: the merges in the order in which they were learned. merges[i] makes token 256 + i.
  to_write("3, encode().");
  return text;
}

}  // namespace exercise
