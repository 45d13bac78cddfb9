#pragma once
// What tests leave out where a sanitizer, or an emulator of the processor, makes all that runs ten
// times as slow.
#include <cstdlib>

namespace hero_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Whether cmake/arm64_run started this.
inline bool is_emulated() { return std::getenv("HERO_EMULATOR") != nullptr; }

}  // namespace hero_test
