#pragma once
// Numbers in memory whose type is known at run time, for the libraries that cusim stands in for.
#include <hero/core/dtype.h>
#include <hero/core/kernels/half.h>

namespace cusim {

inline double load(const void* data, hero::DType type, int64_t at) {
  switch (type) {
    case hero::DType::float64:
      return static_cast<const double*>(data)[at];
    case hero::DType::float16:
      return static_cast<double>(static_cast<float>(static_cast<const hero::Float16*>(data)[at]));
    case hero::DType::bfloat16:
      return static_cast<double>(static_cast<float>(static_cast<const hero::BFloat16*>(data)[at]));
    default:
      return static_cast<double>(static_cast<const float*>(data)[at]);
  }
}

inline void store(void* data, hero::DType type, int64_t at, double value) {
  switch (type) {
    case hero::DType::float64:
      static_cast<double*>(data)[at] = value;
      break;
    case hero::DType::float16:
      static_cast<hero::Float16*>(data)[at] = hero::Float16(static_cast<float>(value));
      break;
    case hero::DType::bfloat16:
      static_cast<hero::BFloat16*>(data)[at] = hero::BFloat16(static_cast<float>(value));
      break;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

}  // namespace cusim
