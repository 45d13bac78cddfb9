#include <string>
#include <utility>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/error.h>
#include <hero/core/io/printable.h>
#include <hero/core/npy.h>
#include <hero/core/safetensors.h>

namespace {

using hero::printable;
using hero::test::error_of;

bool is_plain(const std::string& line) {
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return false;
  }
  return line.find("\xc2\x9b") == line.npos && line.find("\xe2\x80\xae") == line.npos;
}

TEST_CASE("text from outside loses what a terminal would obey, and nothing else", "[core]") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", ""},
      {"plain 'text' \\x1b", "plain 'text' \\x1b"},
      {"two\nlines\r\nand\ttabs", "two lines  and tabs"},
      {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
      {"bell\x07 back\x08 del\x7f", "bell\\x07 back\\x08 del\\x7f"},
      {std::string("nul\0!", 5), "nul\\x00!"},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},                             // a control character of two bytes
      {"\xe2\x80\xaetxt.exe", "\\u202etxt.exe"},  // writes from right to left
      {"\xe2\x80\xa8", "\\u2028"},                // ends a line
      {"\x9b"
       "31m",
       "\\x9b31m"},                                  // the same control character in Latin-1
      {"cut \xe2\x82", "cut \\xe2\\x82"},            // a character that is not whole
      {"\xc0\x9b", "\\xc0\\x9b"},                    // a longer form than needed
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // half of a pair of UTF-16
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond Unicode
      {"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
  };
  for (const auto& [text, shown] : cases) {
    CHECK(printable(text) == shown);
    CHECK(printable(printable(text)) == shown);
  }
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b), 'm'};
      if (!is_plain(printable(text))) FAIL("bytes " << a << " " << b);
    }
  }
}

TEST_CASE("bytes that are no UTF-8 become escapes, and nothing else does", "[core]") {
  using hero::utf8_text;
  CHECK(utf8_text("") == "");
  CHECK(utf8_text("caf\xc3\xa9 \n\t\x1b \\ \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \n\t\x1b \\ \xf0\x9f\x98\x80");
  CHECK(utf8_text("\xff\xfe") == "\\xff\\xfe");
  CHECK(utf8_text("cut \xe2\x82") == "cut \\xe2\\x82");
  CHECK(utf8_text("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(utf8_text(std::string("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("no error shows a name from a file raw", "[core]") {
  const hero_test::TempDir dir;
  const std::string name = "w\x1b]0;title\x07\xc2\x9b\xe2\x80\xae";
  const hero::core::NamedArray one{name, hero::core::Array::zeros({2}, hero::kFloat32)};
  hero::core::save_safetensors(dir / "a", std::span(&one, 1));
  const auto loaded = hero::core::load_safetensors(dir / "a");
  CHECK(loaded.arrays[0].name == name);  // the name itself is what it was
  const hero::PlaceScope place(name);
  std::vector<std::string> errors{
      error_of([&] { loaded.at("b"); }),
      error_of([&] { hero::core::SafetensorsReader(dir / "a").load("b"); }),
      error_of([&] {
        hero::core::save_safetensors(dir / "a", std::vector{one, one});
      }),
      error_of([&] { hero::core::load_npy(dir / name); }),
  };
  std::string file = hero_test::slurp(dir / "a");
  for (const char* part : {"F32", "[2]", "[0,8]", "shape"}) {
    std::string damaged = file;
    damaged.replace(damaged.find(part), 3, part[0] == '[' ? "[9]" : "\x01\x1b?");
    hero_test::spill(dir / "b", damaged);
    errors.push_back(error_of([&] { hero::core::load_safetensors(dir / "b"); }));
  }
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK_FALSE(error.empty());
    CHECK(is_plain(error));
  }
}

}  // namespace
