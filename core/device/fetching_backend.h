#pragma once
// A backend that fetches the bytes of offloaded arrays before another one runs its kernels.
#include <hero/core/device/backend.h>

namespace hero::core {

/// \name Restore the bytes of what is offloaded, and wait for them.
/// \{
void fetch(const Array& array);
void fetch(const Array* array);  ///< null: nothing
void fetch(std::span<const Array> arrays);
void fetch(std::span<const Operand> operands);
inline void fetch_all(const auto&... arrays) { (fetch(arrays), ...); }
/// All arrays of a call.
void fetch_arrays(const auto& call) {
  call.arrays([](const auto&... each) { fetch_all(each...); });
}
/// \}

/// `inner` behind a backend that fetches what is offloaded, one for each `inner`, which lives as
/// long as the process.
Backend& fetching(Backend& inner);

}  // namespace hero::core
