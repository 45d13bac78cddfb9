#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/small_stack.h"

#include <hero/core/json/json.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::core::JSON;
using hero::core::json_dump;
using hero::core::json_integer;
using hero::core::parse_json;
using hero::test::error_of;

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
    return error_of(
        [&] { json_integer<decltype(of)>(parse_json(text, "load", "x"), "the size of 'a'"); });
  };
  CHECK(json_integer<int64_t>(parse_json("-9223372036854775808", "load", "x"), "x") ==
        std::numeric_limits<int64_t>::min());
  CHECK(json_integer<int64_t>(parse_json("9223372036854775807", "load", "x"), "x") ==
        std::numeric_limits<int64_t>::max());
  CHECK(json_integer<uint64_t>(parse_json("18446744073709551615", "load", "x"), "x") ==
        std::numeric_limits<uint64_t>::max());
  CHECK(json_integer<int>(parse_json("-2147483648", "load", "x"), "x") ==
        std::numeric_limits<int>::min());
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
  const JSON value = parse_json(R"({"a":{"b":1},"c":"text"})", "load", "x");
  CHECK(value["c"] == "text");
  CHECK(hero::core::json_object(value, "a").size() == 1);
  CHECK(hero::core::json_text(value["c"], "c") == "text");
  CHECK_THROWS_WITH(value["d"], ContainsSubstring("it has no 'd'"));
  CHECK_THROWS_WITH(value["c"]["d"], ContainsSubstring("it has no 'd'"));
  CHECK_THROWS_WITH(hero::core::json_object(value, "c"), ContainsSubstring("not an object"));
  CHECK_THROWS_WITH(hero::core::json_text(value["a"], "it"), ContainsSubstring("not a text"));
  CHECK(hero::core::shown(JSON(std::string(1000, 'x'))).size() < 100);
  CHECK(hero::core::shown(JSON::array({std::string(1000, 'x')})).size() < 100);
  CHECK(hero::core::shown(JSON("\xff")).size() < 100);
}

TEST_CASE("values are made of what they hold, and written", "[core][json]") {
  JSON value = {{"b", 1}, {"a", {1.5, true, nullptr, "x"}}, {"c", JSON::object()}};
  value["b"] = std::map<std::string, int64_t>{{"z", -7}};  // stays the first that was added
  value["d"]["e"].push_back(std::vector<int>{});
  CHECK(value.dump() == R"({"a":[1.5,true,null,"x"],"b":{"z":-7},"c":{},"d":{"e":[[]]}})");
  const std::string added = R"({"b":{"z":-7},"a":[1.5,true,null,"x"],"c":{},"d":{"e":[[]]}})";
  CHECK(value.dump(-1, JSON::Order::added) == added);
  // so it is of what is read, and of copies
  JSON read = parse_json(added, "load", "x");
  const JSON copy = read;
  CHECK(read == value);
  CHECK(copy.dump(-1, JSON::Order::added) == added);
  read["a"] = copy["b"];
  CHECK(read.dump(-1, JSON::Order::added) ==
        R"({"b":{"z":-7},"a":{"z":-7},"c":{},"d":{"e":[[]]}})");
  CHECK(read != value);
  CHECK(value.dump(1, JSON::Order::added).starts_with("{\n \"b\": {\n  \"z\": -7\n }"));
  CHECK(parse_json(R"({"a":1,"a":2})", "load", "x") == JSON{{"a", 2}});
  CHECK_THROWS_WITH(json_dump(JSON("\xff"), "save"), ContainsSubstring("save: "));
  CHECK(JSON("\xff").dump() == "\"\xef\xbf\xbd\"");
}

TEST_CASE("numbers are equal where their values are", "[core][json]") {
  CHECK(JSON(1) == JSON(1u));
  CHECK(JSON(1) == JSON(1.0));
  CHECK(JSON(-1) == parse_json("-1.0", "load", "x"));
  CHECK(JSON(-1) != JSON(uint64_t{0} - 1));
  CHECK(JSON(1) != JSON(true));
  CHECK(JSON(0) != JSON(nullptr));
  CHECK(JSON(uint64_t{1} << 63).dump() == "9223372036854775808");
  CHECK(JSON(1e100).dump() == "1e+100");
  CHECK(JSON(2.0).dump() == "2.0");
}

TEST_CASE("a value of another kind is an Error", "[core][json]") {
  const JSON text = "x", number = 3;
  CHECK_THROWS_WITH(text.number(), ContainsSubstring("json: \"x\" is a value of another kind"));
  CHECK_THROWS_AS(text.boolean(), hero::Error);
  CHECK_THROWS_AS(number.text(), hero::Error);
  CHECK_THROWS_AS(number.begin(), hero::Error);
  CHECK_THROWS_AS(number.members(), hero::Error);
  CHECK_THROWS_AS(JSON(number).push_back(1), hero::Error);
  CHECK_THROWS_AS(JSON(number)["a"], hero::Error);
  CHECK_THROWS_AS(JSON::array({1})[1], hero::Error);
  CHECK(number.find("a") == nullptr);
  CHECK(number.value("a", 5) == 5);
  CHECK(number.empty());
}

}  // namespace
