#pragma once
// The input of reductions: the terms that they compute from an array's elements, as contiguous
// numbers of the type in which they compute.
#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/reduce/tree.h>

namespace hero::core::cpu {

// n terms of as many elements and centres; `to` may be `x`. Null: the elements are the terms.
template <class T>
using MakeTerms = void (*)(const T* x, const T* center, int64_t n, T* to);

// The elements of an array in row-major order.
template <class T>
class Terms {
 public:
  Terms(const Array& x, DType compute, MakeTerms<T> make)
      : walk_(x, x.shape()),
        data_(x.bytes()),
        dtype_(x.dtype()),
        item_(item_size(x.dtype())),
        in_place_(x.dtype() == compute || (x.dtype() == kBool && compute == kUInt8)),
        convert_(converter(x.dtype(), compute)),
        make_(make) {
    // The last dimensions, as long as they are dense.
    for (int i = x.ndim() - 1; i >= 0 && (x.shape()[i] == 1 || x.strides()[i] == run_); --i) {
      run_ *= x.shape()[i];
    }
    if (!in_place_ || make_ != nullptr) run_ = 0;
  }
  // Where the elements begin, begin + 1, ... lie, if all n are neighbours and the terms, else null.
  const T* find(int64_t begin, int64_t n) const {
    const auto* memory = reinterpret_cast<const T*>(data_);
    if (n > run_) return nullptr;
    if (walk_.linear()) return memory + begin;
    if (begin % run_ + n > run_) return nullptr;
    walk_.runs(begin, 1, [&](int64_t element, int64_t, int64_t, int64_t) { memory += element; });
    return memory;
  }
  // The memory of elements of this dtype, if they are the terms, else null.
  template <class E>
  const E* memory_of(DType dtype) const {
    return dtype == dtype_ && make_ == nullptr ? reinterpret_cast<const E*>(data_) : nullptr;
  }
  // n <= kBlock terms of the elements begin, begin + 1, ...: where they lie, or in `room`.
  const T* read(int64_t begin, int64_t n, const T* center, T* room) const {
    const T* x = room;
    const auto read = [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
      const std::byte* from = data_ + element * item_;
      if (stride == 1) fetch_ahead(from, run * item_);
      if (in_place_ && stride == 1 && run == n) {
        x = reinterpret_cast<const T*>(from);
      } else {
        convert_(run, from, stride, reinterpret_cast<std::byte*>(room + done), 1);
      }
    };
    walk_.linear() ? read(begin, 1, n, 0) : walk_.runs(begin, n, read);
    return made(x, n, center, room);
  }
  // The same of n neighbours in memory, of which `element` is the first.
  const T* read_run(int64_t element, int64_t n, const T* center, T* room) const {
    if (in_place_) return made(reinterpret_cast<const T*>(data_) + element, n, center, room);
    convert_(n, data_ + element * item_, 1, reinterpret_cast<std::byte*>(room), 1);
    return made(room, n, center, room);
  }

 private:
  const T* made(const T* x, int64_t n, const T* center, T* room) const {
    if (make_ == nullptr) return x;
    make_(x, center, n, room);
    return room;
  }

  BroadcastWalk walk_;
  const std::byte* data_;
  DType dtype_;
  int64_t item_;
  bool in_place_;
  ConvertFn convert_;
  MakeTerms<T> make_;
  int64_t run_ = 1;  // elements that are neighbours and the terms
};

}  // namespace hero::core::cpu
