// Grades answers to exercise 8.
#include "exercises/support/grade.h"

#include <algorithm>
#include <map>

#include "exercises/08_merges/exercise.h"

using exercise::bytes_of, exercise::grouped, exercise::Pair, exercise::require, exercise::Tokens;
using exercise::Wrong;

namespace {

const char* const kText =
    "A ship that sails by night is guided by the stars, and a ship that sails by day is guided by "
    "the coast. The captain of the first ship says that the stars are certain; the captain of the "
    "second says that the coast is nearer. Both captains sail the same sea, and both ships carry "
    "the same salt. When the night is over the stars are gone, and when the fog comes the coast is "
    "gone. Then the captains ring their bells, and listen, and the sailors say that the sea is "
    "larger than all the stars and longer than all the coasts together.";

std::string text_of(const Tokens& tokens) {
  std::string list;
  for (const int token : tokens) list += (list.empty() ? "" : " ") + std::to_string(token);
  return tokens.empty() ? "nothing" : list;
}
std::string text_of(const Pair& pair) {
  return "(" + std::to_string(pair.first) + ", " + std::to_string(pair.second) + ")";
}

std::map<Pair, int> counts_of(const Tokens& text, bool overlapping = true) {
  std::map<Pair, int> counts;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const Pair pair(text[i], text[i + 1]);
    ++counts[pair];
    if (!overlapping && pair.first == pair.second && i + 2 < text.size() && text[i + 2] == text[i])
      ++i;
  }
  return counts;
}

Pair best_of(const std::map<Pair, int>& counts) {
  Pair best = counts.begin()->first;
  for (const auto& [pair, count] : counts) best = count > counts.at(best) ? pair : best;
  return best;
}

// The tokens with all pairs merged: from the left, or from the right; or only the first of them; or
// each with what stands behind it, too; or where only one of the two is as in the pair.
enum class How : char { left, right, first, next_lost, again, either, left_alone };
Tokens merged(const Tokens& text, const Pair& pair, int token, How how = How::left) {
  if (how == How::right) {
    const Tokens turned(text.rbegin(), text.rend());
    const Tokens result = merged(turned, {pair.second, pair.first}, token);
    return {result.rbegin(), result.rend()};
  }
  Tokens result;
  bool done = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool a = text[i] == pair.first, b = i + 1 < text.size() && text[i + 1] == pair.second;
    const bool is_pair = how == How::either ? a || b : how == How::left_alone ? a : a && b;
    if (!done && i + 1 < text.size() && is_pair) {
      result.push_back(token);
      i += how == How::again ? 0 : how == How::next_lost ? 2 : 1;
      done = how == How::first;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

std::string counts() {
  const std::vector<Tokens> texts = {
      {7, 8},       {1, 2, 1, 2, 3},       {5, 5, 5, 1, 2, 1, 3},    {9, 1, 4, 2, 9, 1, 4, 2},
      {3, 2, 1, 0}, {1, 2, 0, 9, 8, 0, 7}, {4, 4, 4, 4, 6, 7, 6, 7}, bytes_of(kText)};
  for (const Tokens& text : texts) {
    const auto all = counts_of(text);
    const Pair got = exercise::most_frequent(text), right = best_of(all);
    if (got == right) continue;
    const std::string shown = text.size() < 20 ? "Of " + text_of(text) : "Of the text of the grade";
    const auto found = all.find(got);
    std::string why;
    if (found == all.end()) {
      why = all.count({got.second, got.first}) > 0 ? " The left one of the two comes first."
                                                   : " These two are nowhere neighbours.";
    } else if (found->second == all.at(right)) {
      why = " Both occur equally often, and the smaller pair is wanted.";
    } else if (got == best_of(counts_of(text, false))) {
      why =
          " A pair that overlaps itself counts at each place: in 5 5 5 the pair (5, 5) occurs "
          "twice.";
    } else {
      why = " Which is the most frequent? The one occurs " + std::to_string(found->second) +
            " times, the other " + std::to_string(all.at(right)) + ".";
    }
    throw Wrong(shown + " it is " + text_of(got) + " and should be " + text_of(right) + "." + why);
  }
  return grouped(static_cast<int64_t>(texts.size())) + " texts.";
}

std::string merges() {
  struct Case {
    Tokens text;
    Pair pair;
  };
  const std::vector<Case> cases = {{{1, 2}, {1, 2}},
                                   {{2, 1}, {1, 2}},
                                   {{1, 2, 3, 1, 2}, {1, 2}},
                                   {{3, 1, 2, 1, 2, 1}, {1, 2}},
                                   {{5, 5, 5}, {5, 5}},
                                   {{5, 5, 5, 5, 1, 5, 5}, {5, 5}},
                                   {{1, 1, 2, 2}, {1, 2}},
                                   {{4}, {4, 4}},
                                   {{}, {1, 2}}};
  const std::vector<std::pair<How, std::string>> mistakes = {
      {How::first, "Only the first place was merged."},
      {How::right, "It went from right to left: of 5 5 5 the two on the left are merged."},
      {How::again, "The right one of the pair is still there: the new token uses up both of them."},
      {How::next_lost, "What stands behind a pair is lost."},
      {How::either, "Both have to be those of the pair: && and not ||."},
      {How::left_alone, "The right one of the two was not compared with pair.second."}};
  for (const Case& c : cases) {
    const Tokens got = exercise::merge(c.text, c.pair, 99), right = merged(c.text, c.pair, 99);
    if (got == right) continue;
    std::string why;
    for (const auto& [how, sentence] : mistakes) {
      if (why.empty() && got == merged(c.text, c.pair, 99, how)) why = " " + sentence;
    }
    if (why.empty() && got == c.text) why = " Nothing was merged.";
    if (why.empty() && got.size() + 1 == right.size() &&
        std::equal(got.begin(), got.end(), right.begin())) {
      why = " The last token is missing.";
    }
    throw Wrong("In " + text_of(c.text) + " the pair " + text_of(c.pair) + " becomes 99: it is " +
                text_of(got) + " and should be " + text_of(right) + "." + why);
  }
  return grouped(static_cast<int64_t>(cases.size())) + " texts.";
}

constexpr int kMerges = 120;

std::vector<Pair> right_merges() {
  std::vector<Pair> list;
  Tokens text = bytes_of(kText);
  for (int i = 0; i < kMerges; ++i) {
    list.push_back(best_of(counts_of(text)));
    text = merged(text, list.back(), 256 + i);
  }
  return list;
}

Tokens right_encode(const std::string& text, const std::vector<Pair>& list, bool turned = false) {
  Tokens tokens = bytes_of(text);
  for (size_t i = 0; i < list.size(); ++i) {
    const size_t at = turned ? list.size() - 1 - i : i;
    tokens = merged(tokens, list[at], 256 + static_cast<int>(at));
  }
  return tokens;
}

// The merges in their order, of which the first makes the token `first`, and the next one
// first + step.
Tokens encoded_from(const std::string& text, const std::vector<Pair>& list, int first,
                    int step = 1) {
  Tokens tokens = bytes_of(text);
  for (const Pair& pair : list) {
    tokens = merged(tokens, pair, first);
    first += step;
  }
  return tokens;
}

// The merges of the pairs that are the most frequent ones of this text.
Tokens merged_anew(const std::string& text, size_t count) {
  Tokens tokens = bytes_of(text);
  for (size_t i = 0; i < count && tokens.size() > 1; ++i)
    tokens = merged(tokens, best_of(counts_of(tokens)), 256 + static_cast<int>(i));
  return tokens;
}

// The longest token that fits, from left to right.
Tokens greedy(const std::string& text, const std::vector<Pair>& list) {
  Tokens tokens;
  for (size_t at = 0; at < text.size();) {
    int best = static_cast<unsigned char>(text[at]);
    size_t length = 1;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string bytes = exercise::decode({256 + static_cast<int>(i)}, list);
      if (bytes.size() > length && text.compare(at, bytes.size(), bytes) == 0)
        best = 256 + static_cast<int>(i), length = bytes.size();
    }
    tokens.push_back(best);
    at += length;
  }
  return tokens;
}

std::string training() {
  const std::vector<Pair> got = exercise::train(bytes_of(kText), kMerges), right = right_merges();
  for (size_t i = 0; i < right.size(); ++i) {
    require(i < got.size() && got[i] == right[i], "Merge ", i, " is ",
            i < got.size() ? text_of(got[i]) : "missing", " and should be ", text_of(right[i]),
            ".");
  }
  std::string longest;
  for (int i = 0; i < kMerges; ++i) {
    const std::string bytes = exercise::decode({256 + i}, got);
    if (bytes.size() > longest.size()) longest = bytes;
  }
  return std::to_string(kMerges) + " merges of a text of " +
         grouped(static_cast<int64_t>(std::string(kText).size())) +
         " characters. The longest token is \"" + longest + "\".";
}

std::string encoding() {
  const std::vector<Pair> list = right_merges();
  const std::vector<std::string> texts = {
      kText, "the captain sails", "",
      "x",   "ssssss the the",    "stars and coasts, and a ship's bells"};
  for (const std::string& text : texts) {
    const Tokens got = exercise::encode(bytes_of(text), list), right = right_encode(text, list);
    if (got == right) {
      require(exercise::decode(got, list) == text, "decode() does not give back \"", text, "\".");
      continue;
    }
    size_t at = 0;
    while (at < got.size() && at < right.size() && got[at] == right[at]) ++at;
    std::string why;
    if (got == bytes_of(text)) {
      why = " Nothing was merged.";
    } else if (got == right_encode(text, list, true)) {
      why = " The merges were made in the wrong order: the one that was learned first comes first.";
    } else if (got == greedy(text, list)) {
      why =
          " This takes the longest token that fits, from left to right. The merges are made in "
          "the order in which they were learned, each in the whole text.";
    } else if (got == encoded_from(text, list, 255) || got == encoded_from(text, list, 257) ||
               got == encoded_from(text, list, 0) || got == encoded_from(text, list, 256, 0)) {
      why = " The tokens of the merges have the wrong numbers: merges[i] makes 256 + i.";
    } else if (got == merged(bytes_of(text), list.back(), 255 + static_cast<int>(list.size()))) {
      why = " Only the last merge is left: each is made in what the one before it has made.";
    } else if (got == merged_anew(text, list.size())) {
      why =
          " These are the most frequent pairs of this text. The merges are those that were "
          "learned.";
    }
    const auto show = [&](const Tokens& tokens) {
      return at < tokens.size() ? std::to_string(tokens[at]) : std::string("missing");
    };
    throw Wrong("\"" + text.substr(0, 40) + "\" has " + std::to_string(right.size()) +
                " tokens, and it returns " + std::to_string(got.size()) + ". Token " +
                std::to_string(at) + " is " + show(got) + " and should be " + show(right) + "." +
                why);
  }
  const Tokens tokens = right_encode(kText, list);
  return "the text of " + grouped(static_cast<int64_t>(std::string(kText).size())) + " bytes has " +
         grouped(static_cast<int64_t>(tokens.size())) + " tokens; with " +
         std::to_string(texts.size()) + " texts, encode() and decode() give back what went in.";
}

}  // namespace

int main() {
  return exercise::grade(
      "Exercise 8. Byte pair encoding: the merge",
      {{"counts", counts}, {"merge", merges}, {"training", training}, {"encode", encoding}});
}
