#pragma once
// What tests leave out where a sanitizer makes all that runs ten times as slow.

namespace hero_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace hero_test
