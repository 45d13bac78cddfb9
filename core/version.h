#pragma once
// The version of Hero.

namespace hero {

/// The version, which configuring compares with that in CMakeLists.txt.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace hero
