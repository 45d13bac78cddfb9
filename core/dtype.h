#pragma once
// Element types, their names, sizes and promotion.
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <hero/core/kernels/half.h>

namespace hero {

/// The type of an array's elements. The order is that of promotion, except for float16 and
/// bfloat16.
enum class DType : uint8_t { boolean, uint8, int32, int64, float16, bfloat16, float32, float64 };

inline constexpr DType kBool = DType::boolean;
inline constexpr DType kUInt8 = DType::uint8;
inline constexpr DType kInt32 = DType::int32;
inline constexpr DType kInt64 = DType::int64;
inline constexpr DType kFloat16 = DType::float16;
inline constexpr DType kBFloat16 = DType::bfloat16;
inline constexpr DType kFloat32 = DType::float32;
inline constexpr DType kFloat64 = DType::float64;
inline constexpr int kDTypeCount = 8;

/// The bytes of one element.
constexpr int64_t item_size(DType dtype) {
  constexpr int64_t sizes[kDTypeCount] = {1, 1, 4, 8, 2, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}

/// True for float16, bfloat16, float32 and float64.
constexpr bool is_floating(DType dtype) { return dtype >= DType::float16; }

/// True for float16 and bfloat16.
constexpr bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

/// 0 for bool, 1 for integers, 2 for floats.
constexpr int kind(DType dtype) {
  return is_floating(dtype) ? 2 : (dtype == DType::boolean ? 0 : 1);
}

/// NumPy's name, such as "float32" or "bool".
const char* name(DType dtype);
inline std::string to_string(DType dtype) { return name(dtype); }

/// The dtype of an operation between arrays of these dtypes, both with dimensions or both without
/// (PyTorch's promotion table); see Promotion for operands in general.
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  const bool halves = (a == kFloat16 && b == kBFloat16) || (a == kBFloat16 && b == kFloat16);
  return halves ? kFloat32 : (a > b ? a : b);
}

template <class T>
inline constexpr bool kIsElement = false;
template <class T>
inline constexpr DType kDTypeOf = kFloat32;

template <DType D>
struct ElementOf;

template <DType D>
using Element = typename ElementOf<D>::type;

namespace detail {
template <class T, DType D>
struct Pair {
  using type = T;
};
}  // namespace detail

template <>
struct ElementOf<kBool> : detail::Pair<bool, kBool> {};
template <>
struct ElementOf<kUInt8> : detail::Pair<uint8_t, kUInt8> {};
template <>
struct ElementOf<kInt32> : detail::Pair<int32_t, kInt32> {};
template <>
struct ElementOf<kInt64> : detail::Pair<int64_t, kInt64> {};
template <>
struct ElementOf<kFloat16> : detail::Pair<Float16, kFloat16> {};
template <>
struct ElementOf<kBFloat16> : detail::Pair<BFloat16, kBFloat16> {};
template <>
struct ElementOf<kFloat32> : detail::Pair<float, kFloat32> {};
template <>
struct ElementOf<kFloat64> : detail::Pair<double, kFloat64> {};

template <>
inline constexpr DType kDTypeOf<bool> = kBool;
template <>
inline constexpr DType kDTypeOf<uint8_t> = kUInt8;
template <>
inline constexpr DType kDTypeOf<int32_t> = kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = kInt64;
template <>
inline constexpr DType kDTypeOf<Float16> = kFloat16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = kBFloat16;
template <>
inline constexpr DType kDTypeOf<double> = kFloat64;

template <>
inline constexpr bool kIsElement<bool> = true;
template <>
inline constexpr bool kIsElement<uint8_t> = true;
template <>
inline constexpr bool kIsElement<int32_t> = true;
template <>
inline constexpr bool kIsElement<int64_t> = true;
template <>
inline constexpr bool kIsElement<Float16> = true;
template <>
inline constexpr bool kIsElement<BFloat16> = true;
template <>
inline constexpr bool kIsElement<float> = true;
template <>
inline constexpr bool kIsElement<double> = true;

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls body(TypeTag<T>{}) with the element type T of `dtype`: the only dispatcher over dtypes.
template <class Body>
constexpr decltype(auto) dispatch(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::boolean:
      return std::forward<Body>(body)(TypeTag<bool>{});
    case DType::uint8:
      return std::forward<Body>(body)(TypeTag<uint8_t>{});
    case DType::int32:
      return std::forward<Body>(body)(TypeTag<int32_t>{});
    case DType::int64:
      return std::forward<Body>(body)(TypeTag<int64_t>{});
    case DType::float16:
      return std::forward<Body>(body)(TypeTag<Float16>{});
    case DType::bfloat16:
      return std::forward<Body>(body)(TypeTag<BFloat16>{});
    case DType::float64:
      return std::forward<Body>(body)(TypeTag<double>{});
    case DType::float32:
      break;
  }
  return std::forward<Body>(body)(TypeTag<float>{});
}

/// Converts a float to an integer, rounding towards zero. A value that the integer type cannot hold
/// becomes its lowest integer, as with x86's instructions; a uint8 is the lowest byte of the int32.
template <class To, class From>
HERO_HD inline To truncate(From value) {
#if defined(__CUDA_ARCH__)
  return static_cast<To>(value);
#else
  using Whole = std::conditional_t<sizeof(To) < sizeof(int32_t), int32_t, To>;
#if defined(__aarch64__)  // whose instructions saturate instead
  constexpr Whole kLowest = std::numeric_limits<Whole>::min();
  constexpr From kBelow = -static_cast<From>(kLowest);
  return static_cast<To>(value >= -kBelow && value < kBelow ? static_cast<Whole>(value) : kLowest);
#else
  return static_cast<To>(
      static_cast<Whole>(value));  // C++ defines no value for a float outside of uint8
#endif
#endif
}

/// Converts the value of an element. Half precision is converted by way of float, integers wrap,
/// and floats are truncated to integers.
template <class To, class From>
HERO_HD inline To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (core::kIsHalf<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (core::kIsHalf<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace hero
