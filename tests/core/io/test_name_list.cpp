#include <string>

#include "support/catch.h"

#include <hero/core/io/name_list.h>

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
