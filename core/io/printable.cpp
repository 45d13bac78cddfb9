#include <array>
#include <cstdint>
#include <cstdio>

#include <hero/core/io/name_list.h>
#include <hero/core/io/printable.h>

namespace hero {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: the first byte begins no character of UTF-8
};

// The character at the front of a text that is not empty.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!core::continues_character(text[i])) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  // The shortest form only, no halves of UTF-16's pairs, nothing beyond Unicode's end.
  constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool half_of_pair = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[bytes] || half_of_pair || code > 0x10ffff) return {};
  return {code, bytes};
}

bool is_obeyed(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  const bool ends_line = code == 0x2028 || code == 0x2029;
  return control || turns || ends_line;
}

void append_escape(std::string& text, char c) {
  std::array<char, 16> escape{};
  std::snprintf(escape.data(), escape.size(), "\\x%02x",
                static_cast<unsigned>(static_cast<unsigned char>(c)));
  text += escape.data();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  std::array<char, 16> escape{};
  while (!text.empty()) {
    const Character one = first_of(text);
    const size_t bytes = one.bytes == 0 ? 1 : one.bytes;
    const char byte = text[0];
    if (byte == '\n' || byte == '\r' || byte == '\t') {
      shown += ' ';
    } else if (one.bytes == 0 || (one.bytes == 1 && is_obeyed(one.code))) {
      append_escape(shown, byte);
    } else if (is_obeyed(one.code)) {
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(one.code));
      shown += escape.data();
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

std::string utf8_text(std::string_view text) {
  std::string whole;
  whole.reserve(text.size());
  while (!text.empty()) {
    const Character one = first_of(text);
    if (one.bytes == 0) {
      append_escape(whole, text[0]);
    } else {
      whole += text.substr(0, one.bytes);
    }
    text.remove_prefix(one.bytes == 0 ? 1 : one.bytes);
  }
  return whole;
}

}  // namespace hero
