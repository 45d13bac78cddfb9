#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <hero/nn/data/unicode.h>
#include <hero/nn/data/unicode_table.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

// The value that a table of changes gives a code point: that of the last change up to it.
template <size_t N>
uint32_t value_at(const uint32_t (&changes)[N], uint32_t code_point, int bits) {
  const uint32_t mask = (1u << bits) - 1;
  const auto above =
      std::upper_bound(std::begin(changes), std::end(changes), uint64_t{code_point} << bits | mask);
  return above == std::begin(changes) ? 0 : *std::prev(above) & mask;
}

uint32_t combining_class(uint32_t code_point) {
  return code_point < 0x300 ? 0 : value_at(kUnicodeCombining, code_point, 8);
}

// Hangul's syllables are composed by arithmetic (Unicode, section 3.12).
constexpr uint32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11a7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28;

void decompose(uint32_t code, std::vector<uint32_t>& out) {
  if (code - kSyllable < kLeads * kVowels * kTails) {
    const uint32_t at = code - kSyllable;
    out.push_back(kLead + at / (kVowels * kTails));
    out.push_back(kVowel + at / kTails % kVowels);
    if (at % kTails != 0) out.push_back(kTail + at % kTails);
    return;
  }
  const auto* found =
      std::lower_bound(std::begin(kUnicodeParts), std::end(kUnicodeParts), code,
                       [](const UnicodeParts& row, uint32_t value) { return row.whole < value; });
  if (found == std::end(kUnicodeParts) || found->whole != code) {
    out.push_back(code);
    return;
  }
  decompose(found->first, out);
  if (found->second != 0) decompose(found->second, out);
}

// What two code points become, or 0.
uint32_t composed(uint32_t first, uint32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + second - kVowel) * kTails;
  }
  if (first - kSyllable < kLeads * kVowels * kTails && (first - kSyllable) % kTails == 0 &&
      second > kTail && second - kTail < kTails) {
    return first + second - kTail;
  }
  const auto pair = std::pair(first, second);
  const auto* found = std::lower_bound(
      std::begin(kUnicodeComposing), std::end(kUnicodeComposing), pair,
      [](uint16_t row, const std::pair<uint32_t, uint32_t>& value) {
        return std::pair(kUnicodeParts[row].first, kUnicodeParts[row].second) < value;
      });
  if (found == std::end(kUnicodeComposing)) return 0;
  const UnicodeParts& row = kUnicodeParts[*found];
  return std::pair(row.first, row.second) == pair ? row.whole : 0;
}

// Marks after a starter in the order of their classes; those of one class stay in theirs.
void order_marks(std::vector<uint32_t>& codes) {
  for (auto from = codes.begin(); from != codes.end();) {
    if (combining_class(*from) == 0) {
      ++from;
      continue;
    }
    const auto to =
        std::find_if(from, codes.end(), [](uint32_t code) { return combining_class(code) == 0; });
    std::stable_sort(from, to, [](uint32_t left, uint32_t right) {
      return combining_class(left) < combining_class(right);
    });
    from = to;
  }
}

// Each mark joins the starter before it where they have a composition and nothing between them
// blocks it: a starter, or a mark of the same class or a higher one.
void compose(std::vector<uint32_t>& codes) {
  size_t to = 0, starter = codes.size();
  uint32_t former = 0;  // class of the last that stayed behind the starter
  for (size_t from = 0; from < codes.size(); ++from) {
    const uint32_t code = codes[from], kind = combining_class(code);
    if (starter < to) {
      const bool blocked = to - starter > 1 && former >= kind;
      const uint32_t whole = blocked ? 0 : composed(codes[starter], code);
      if (whole != 0) {
        codes[starter] = whole;
        continue;
      }
    }
    if (kind == 0) starter = to;
    former = kind;
    codes[to++] = code;
  }
  codes.resize(to);
}

void append_utf8(uint32_t code, std::string& out) {
  const auto push = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return push(code);
  if (code < 0x800) {
    push(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      push(0xe0 | code >> 12);
    } else {
      push(0xf0 | code >> 18);
      push(0x80 | (code >> 12 & 0x3f));
    }
    push(0x80 | (code >> 6 & 0x3f));
  }
  push(0x80 | (code & 0x3f));
}

constexpr uint32_t kByte = 0x80000000;  // marks a byte that is not UTF-8 among code points

}  // namespace

CharacterClass character_class(uint32_t code_point) {
  if (code_point == kInvalidCodePoint) return CharacterClass::other;
  return static_cast<CharacterClass>(value_at(kUnicodeClasses, code_point, 2));
}

bool is_word_character(uint32_t code_point) {
  return code_point != kInvalidCodePoint && value_at(kUnicodeWords, code_point, 1) != 0;
}

uint32_t code_point_before(std::string_view text, size_t at) {
  for (size_t length = 1; length <= 4 && length <= at; ++length) {
    const CodePoint one = code_point_at(text.substr(0, at), at - length);
    if (one.value != kInvalidCodePoint) return one.length == length ? one.value : kInvalidCodePoint;
  }
  return kInvalidCodePoint;
}

bool is_plain_nfc(std::string_view text) {
  // U+0300 is cc 80; bytes that are not UTF-8 may be above, too.
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0xcc; });
}

std::string normalized_nfc(std::string_view text) {
  if (is_plain_nfc(text)) return std::string(text);
  std::vector<uint32_t> codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    if (one.value == kInvalidCodePoint) {
      codes.push_back(kByte | static_cast<unsigned char>(text[at]));
    } else {
      decompose(one.value, codes);
    }
    at += one.length;
  }
  order_marks(codes);
  compose(codes);
  std::string out;
  out.reserve(text.size());
  for (const uint32_t code : codes) {
    if ((code & kByte) != 0) {
      out.push_back(static_cast<char>(code & 0xff));
    } else {
      append_utf8(code, out);
    }
  }
  return out;
}

}  // namespace hero::nn::data
