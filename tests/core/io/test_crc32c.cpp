// CRC-32C beside the check values of its standard.
#include <cstddef>
#include <span>
#include <string>

#include "support/catch.h"

#include <hero/core/io/crc32c.h>

using hero::core::crc32c;
using hero::core::crc32c_by_tables;

TEST_CASE("crc32c has the check values of RFC 3720") {
  const auto of_bytes = [](auto byte_at) {
    std::string text;
    for (int i = 0; i < 32; ++i) text += static_cast<char>(byte_at(i));
    return crc32c(text);
  };
  CHECK(crc32c("123456789") == 0xE3069283u);
  CHECK(crc32c("") == 0u);
  CHECK(of_bytes([](int) { return 0; }) == 0x8A9136AAu);
  CHECK(of_bytes([](int) { return 0xFF; }) == 0x62A8AB43u);
  CHECK(of_bytes([](int i) { return i; }) == 0x46DD794Eu);
  CHECK(of_bytes([](int i) { return 31 - i; }) == 0x113FDB5Cu);
}

TEST_CASE("crc32c is the same by words, by tables and in pieces") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37 + i / 3);
  const std::span bytes = std::as_bytes(std::span(text));
  for (size_t length = 0; length <= text.size(); ++length) {
    const std::span part = bytes.first(length);
    REQUIRE(crc32c(part) == crc32c_by_tables(part));
    REQUIRE(crc32c(part.subspan(length / 3), crc32c(part.first(length / 3))) == crc32c(part));
  }
}
