#pragma once
// Which Hero this is.

namespace hero {

/// CMakeLists.txt has the same number: configuring looks.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace hero
