#pragma once
// Runs every elementwise functor of the list, by its position.
#include <array>
#include <span>
#include <vector>

#include <hero/core/backend.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::test {

template <class... Fs, class Body>
void each_functor(TypeList<Fs...>, Body&& body) {
  (body(TypeTag<Fs>{}), ...);
}

/// Calls body(TypeTag<F>{}) for each functor F.
template <class Body>
void each_functor(Body&& body) {
  each_functor(core::kernels::MapList{}, body);
}

/// True where F computes in T.
template <class F, class T>
inline constexpr bool kComputes = core::kernels::computes_in<F, T>();

/// F of one element's operands.
template <class F, class T>
auto apply(const std::array<T, 4>& in) {
  if constexpr (F::arity == 1) return F{}(in[0]);
  if constexpr (F::arity == 2) return F{}(in[0], in[1]);
  if constexpr (F::arity == 3) return F{}(in[0], in[1], in[2]);
  if constexpr (F::arity == 4) return F{}(in[0], in[1], in[2], in[3]);
}

/// The kernel of F computing in `compute`, on the device of `out`.
template <class F>
void run(std::span<const core::Array> inputs, DType compute, const core::Array& out) {
  std::vector<core::Operand> operands;
  for (int i = 0; i < F::arity; ++i) operands.emplace_back(inputs[static_cast<size_t>(i)]);
  core::backend(out.device()).map({core::kernels::MapList::index_of<F>()}, operands, compute, out);
}

}  // namespace hero::test
