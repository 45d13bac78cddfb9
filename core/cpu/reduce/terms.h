#pragma once
// What reductions read: the terms that they make of an array's elements, as contiguous numbers of
// the type that they compute in.
#include <hero/core/cpu/block_io.h>

namespace hero::core::cpu {

// Asks for what lies 16 KB behind some bytes: the processor looks ahead only within a page.
inline void fetch_ahead(const std::byte* x, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x + i) + 16384));
  }
}

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
        make_(make) {}
  // All elements where they are the terms and lie one behind the other, else null.
  const T* whole() const {
    return in_place_ && make_ == nullptr && walk_.linear() ? reinterpret_cast<const T*>(data_)
                                                           : nullptr;
  }
  // The memory of elements of this dtype, if they are the terms, else null.
  template <class E>
  const E* memory_of(DType dtype) const {
    return dtype == dtype_ && make_ == nullptr ? reinterpret_cast<const E*>(data_) : nullptr;
  }
  // n <= kBlock terms of the elements begin, begin + 1, ...: where they lie, or in `room`.
  const T* read(int64_t begin, int64_t n, const T* center, T* room) const {
    const T* x = room;
    walk_.runs(begin, n, [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
      const std::byte* from = data_ + element * item_;
      if (stride == 1) fetch_ahead(from, run * item_);
      if (in_place_ && stride == 1 && run == n) {
        x = reinterpret_cast<const T*>(from);
      } else {
        convert_(run, from, stride, reinterpret_cast<std::byte*>(room + done), 1);
      }
    });
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

  Walk walk_;
  const std::byte* data_;
  DType dtype_;
  int64_t item_;
  bool in_place_;
  ConvertFn convert_;
  MakeTerms<T> make_;
};

}  // namespace hero::core::cpu
