#pragma once
// A backend that fetches the bytes of offloaded arrays before another backend runs its kernels.
#include <hero/core/device/backend.h>

namespace hero::core {

/// \name Restore the bytes of what is offloaded, and wait for them.
/// \{
void fetch(const Array& array);
void fetch(const Array* array);  ///< null: nothing
void fetch(std::span<const Array> arrays);
void fetch(std::span<const Operand> operands);
inline void fetch_all(const auto&... arrays) { (fetch(arrays), ...); }
/// Fetches all arrays of a call.
void fetch_arrays(const auto& call) {
  call.arrays([](const auto&... each) { fetch_all(each...); });
}
/// \}

/// A backend that fetches the offloaded arrays of each call and then runs it on `inner`. There is
/// one for each `inner`, and it lives as long as the process.
Backend& fetching(Backend& inner);

}  // namespace hero::core
