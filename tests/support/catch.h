#pragma once
// Catch2, version 2 or 3, under the names of version 3.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // where version 2 has it
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {  // renamed in version 3
inline auto ContainsSubstring(const std::string& text,
                              CaseSensitive::Choice choice = CaseSensitive::Yes) {
  return Contains(text, choice);
}
}  // namespace Catch::Matchers
#endif
