#pragma once
// Arrays for tests: filled from a formula, laid out in awkward ways, compared and hashed.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/device/backend.h>

namespace hero::test {

using core::Array;

/// Element i of row-major order is f(i).
inline Array make(const Shape& shape, const std::function<double(int64_t)>& f,
                  DType dtype = kFloat32) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = f(static_cast<int64_t>(i));
  return Array::from(values, shape).to(dtype);
}

/// Numbers without pattern in [-2, 2), the same on every machine.
inline Array noise(const Shape& shape, DType dtype = kFloat32, uint64_t seed = 1) {
  return make(
      shape,
      [seed](int64_t i) {
        uint64_t h = (static_cast<uint64_t>(i) + seed * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 29;
        h *= 0x94D049BB133111EBu;
        return static_cast<double>(h >> 40) * 0x1p-22 - 2.0;
      },
      dtype);
}

/// The same values and shape over memory with gaps, dimensions in reverse order.
inline Array awkward(const Array& x) {
  Shape reversed;
  Dims order;
  for (int i = x.ndim() - 1; i >= 0; --i) {
    reversed.push_back(x.shape()[i]);
    order.push_back(i);
  }
  if (x.ndim() == 0) return x;
  reversed[0] = reversed[0] * 2 + 1;
  Array view = Array::zeros(reversed, x.dtype()).slice(0, 1, kEnd, 2).permute(order);
  core::backend(kCpu).run(core::call::Copy{x, view});
  return view;
}

/// FNV-1a over the bytes of the values in row-major order.
inline uint64_t hash(const Array& x) {
  const Array dense = x.contiguous();
  uint64_t h = 0xcbf29ce484222325u;
  const std::byte* bytes = dense.numel() > 0 ? dense.bytes() : nullptr;
  for (int64_t i = 0; i < dense.nbytes(); ++i) {
    h = (h ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
  }
  return h;
}

/// Same shape, dtype and bytes.
inline bool same(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && hash(a) == hash(b);
}

/// The message of the hero::Error that `body` throws; "" if it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace hero::test
