#include <string>

#include "support/catch.h"

#include <hero/core/io/name_list.h>

using hero::core::cut_text;
using hero::core::NameList;

TEST_CASE("a long list of names in an error shows the first ones and a count", "[core]") {
  NameList list;
  CHECK((list.empty() && list.text().empty()));
  for (int i = 0; i < 8; ++i) list.add("n" + std::to_string(i));
  CHECK(list.text() == "n0, n1, n2, n3, n4, n5, n6, n7");
  list.add("n8");
  CHECK(list.text() == "n0, n1, n2, n3, n4, n5, n6, n7 .. and 1 more");
  for (int i = 0; i < 1000; ++i) list.add("again");
  CHECK(list.text() == "n0, n1, n2, n3, n4, n5, n6, n7 .. and 1001 more");
}

TEST_CASE("a long text in an error is cut between two characters of UTF-8", "[core]") {
  CHECK(cut_text("") == "");
  CHECK(cut_text(std::string(80, 'a')) == std::string(80, 'a'));
  CHECK(cut_text(std::string(81, 'a')) == std::string(80, 'a') + "...");
  CHECK(cut_text(std::string(79, 'a') + "\xC3\xA9z") == std::string(79, 'a') + "...");
  CHECK(cut_text(std::string(78, 'a') + "\xC3\xA9z") == std::string(78, 'a') + "\xC3\xA9...");
  CHECK(cut_text("aaaa\xF0\x9F\x98\x80", 7) == "aaaa...");
  CHECK(cut_text(std::string(100, '\x80')).size() == 76 + 3);  // no UTF-8: what is left is short
  NameList list;
  list.add(std::string(1 << 20, 'n'));
  CHECK(list.text() == std::string(200, 'n') + "...");
  NameList lines("; ", 8);
  lines.add("one line");
  lines.add("two lines");
  CHECK(lines.text() == "one line; two line...");
}
