#pragma once
#include <cstdint>
#include <utility>

#include <hero/core/array.h>

namespace hero {

/// A base, beside Op, of operations that can compute the gradients of some inputs separately from
/// those of the others, above all products. grad_first() may call backward() of such an operation
/// twice, each time with needs(i) true only for the inputs whose gradients are wanted then; a
/// backward that respects needs() does nothing twice. It must not ask for a saved input that only
/// the other part needs, since parameters may be freed in between.
class TwoPartBackward {
 public:
  enum class Part : uint8_t { whole, first, second };
  void begin_part(Part part) { part_ = part; }

 protected:
  /// A value that both parts need, such as the gradient before an activation: it is computed in the
  /// first part and kept for the second.
  template <class F>
  Array in_both_parts(const F& compute) {
    if (part_ == Part::second) return std::exchange(kept_, {});
    const Array value = compute();
    if (part_ == Part::first) kept_ = value;
    return value;
  }
  ~TwoPartBackward() = default;
  TwoPartBackward() = default;
  TwoPartBackward(TwoPartBackward&&) noexcept = default;

 private:
  Part part_ = Part::whole;
  Array kept_;
};

}  // namespace hero
