#pragma once
// The version of Hero.

namespace hero {

/// The version, which CMake and the recipe for Conan read here.
inline constexpr const char* kVersion = "0.2.0";

}  // namespace hero
