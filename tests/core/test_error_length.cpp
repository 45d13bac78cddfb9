#include <string>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/device.h>
#include <hero/core/error.h>
#include <hero/core/io/printable.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using hero::test::error_of;

TEST_CASE("an error keeps its start and its end, whatever it is given", "[core]") {
  const std::string most(3880, 'n');
  CHECK(error_of([&] { hero::fail("op: '", most, "'; end"); }) == "op: '" + most + "'; end");
  const std::string line =
      error_of([] { hero::fail("op: '", std::string(1 << 20, 'n'), "'; do this"); });
  CHECK_THAT(line, StartsWith("op: 'nnn") && EndsWith("nnn'; do this"));
  CHECK_THAT(line, ContainsSubstring("nnn... [1044691 bytes] ...nnn"));
  CHECK(line.size() < 4000);

  std::string accents;  // characters of two bytes, at even and at odd places
  for (int i = 0; i < 5000; ++i) accents += "\xc3\xa9";
  for (const char* begin : {"", "x"}) {
    const std::string cut = error_of([&] { hero::fail(begin, accents); });
    CHECK(cut.find("\\x") == cut.npos);  // no half of one
    CHECK(cut.size() < 4000);
  }
}

TEST_CASE("the name of a device in an error is cut", "[core]") {
  const std::string line = error_of([] { hero::parse_device(std::string(1 << 20, 'c')); });
  CHECK_THAT(line, ContainsSubstring("ccc...'; use cpu, meta, cuda or cuda:N"));
}

}  // namespace
