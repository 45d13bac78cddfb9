#pragma once
#include <cstdlib>
#include <string>

namespace hero::test {

/// Where the golden files lie: what HERO_GOLDEN_DIR in the environment says, for programs that run
/// on another machine than that of their build, else where they lay then.
inline std::string golden_dir() {
  const char* const elsewhere = std::getenv("HERO_GOLDEN_DIR");
  return elsewhere != nullptr && *elsewhere != '\0' ? elsewhere : HERO_GOLDEN_DIR;
}

}  // namespace hero::test
