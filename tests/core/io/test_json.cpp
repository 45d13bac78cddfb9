#include <limits>
#include <string>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/small_stack.h"

#include <hero/core/json/reader.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::core::json_integer;
using hero::core::parse_json;
using hero::test::error_of;
using nlohmann::json;

std::string nested(int depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += "0";
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST_CASE("JSON that is too deep is refused, on any stack", "[core][json]") {
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    CHECK(parse_json(nested(100, open, close), "load", "x").dump() == nested(100, open, close));
    CHECK_THROWS_WITH(parse_json(nested(101, open, close), "load", "x"),
                      ContainsSubstring("load: x is JSON of more than 100 brackets"));
    for (const int depth : {1000, 100000, 1000000}) {
      hero_test::on_small_stack([&, o = open, c = close] {
        CHECK_THROWS_AS(parse_json(nested(depth, o, c), "load", "x"), hero::Error);
        CHECK_THROWS_AS(parse_json(nested(depth, o, ""), "load", "x"), hero::Error);
      });
    }
  }
  // Brackets in texts are no brackets, also behind a quote that is escaped.
  const std::string quoted = "[\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\"]";
  CHECK(parse_json(quoted, "load", "x").dump() == quoted);
  CHECK(parse_json("[" + nested(50, "[", "]") + "," + nested(99, "[", "]") + "]", "load", "x")
            .size() == 2);
}

TEST_CASE("what is no JSON is one error that says where", "[core][json]") {
  for (const std::string text : {"", "{", "[1,]", "{\"a\" 1}", "\"\\ud800\"", "\"\xff\"", "1e999",
                                 "nan", "[1] 2", "\x1b[31m"}) {
    const std::string error = error_of([&] { parse_json(text, "load", "x"); });
    CHECK_THAT(error, ContainsSubstring("load: x is not JSON: "));
    CHECK_THAT(error, !ContainsSubstring("json.exception"));
    CHECK(error.find('\x1b') == error.npos);
  }
}

TEST_CASE("whole numbers are taken whole or refused by name", "[core][json]") {
  const auto error = [](const char* text, auto of) {
    return error_of([&] { json_integer<decltype(of)>(json::parse(text), "the size of 'a'"); });
  };
  CHECK(json_integer<int64_t>(json::parse("-9223372036854775808"), "x") ==
        std::numeric_limits<int64_t>::min());
  CHECK(json_integer<int64_t>(json::parse("9223372036854775807"), "x") ==
        std::numeric_limits<int64_t>::max());
  CHECK(json_integer<uint64_t>(json::parse("18446744073709551615"), "x") ==
        std::numeric_limits<uint64_t>::max());
  CHECK(json_integer<int>(json::parse("-2147483648"), "x") == std::numeric_limits<int>::min());
  for (const char* text : {"1.8e24", "1e300", "-1e300", "1.5", "3.0", "18446744073709551616",
                           "null", "true", "\"7\"", "[7]", "{}"}) {
    for (const std::string& message : {error(text, int64_t{}), error(text, uint64_t{}),
                                       error(text, int{}), error(text, uint32_t{})}) {
      CHECK_THAT(message, ContainsSubstring("the size of 'a' is ") &&
                              ContainsSubstring("not a whole number"));
    }
  }
  CHECK_THAT(error("9223372036854775808", int64_t{}), ContainsSubstring("64 bits"));
  CHECK_THAT(error("2147483648", int{}), ContainsSubstring("32 bits"));
  CHECK_THAT(error("-2147483649", int{}), ContainsSubstring("32 bits"));
  CHECK_THAT(error("-1", uint64_t{}), ContainsSubstring("from 0 of 64 bits"));
  CHECK_THAT(error("4294967296", uint32_t{}), ContainsSubstring("from 0 of 32 bits"));
}

TEST_CASE("members that are missing or of another kind are named", "[core][json]") {
  const json value = json::parse(R"({"a":{"b":1},"c":"text"})");
  CHECK(hero::core::json_member(value, "c") == "text");
  CHECK(hero::core::json_object(value, "a").size() == 1);
  CHECK(hero::core::json_text(value["c"], "c") == "text");
  CHECK_THROWS_WITH(hero::core::json_member(value, "d"), ContainsSubstring("it has no 'd'"));
  CHECK_THROWS_WITH(hero::core::json_member(value["c"], "d"), ContainsSubstring("it has no 'd'"));
  CHECK_THROWS_WITH(hero::core::json_object(value, "c"), ContainsSubstring("not an object"));
  CHECK_THROWS_WITH(hero::core::json_text(value["a"], "it"), ContainsSubstring("not a text"));
  CHECK(hero::core::shown(json(std::string(1000, 'x'))).size() < 100);
  CHECK(hero::core::shown(json::array({std::string(1000, 'x')})).size() < 100);
  CHECK(hero::core::shown(json("\xff")).size() < 100);
}

}  // namespace
