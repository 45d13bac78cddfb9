#pragma once
// Every elementwise functor of the list as data: a test loops over them, so that its body is
// compiled once, and not once for each.
#include <array>
#include <span>
#include <vector>

#include <hero/core/device/backend.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::test {

/// What a test has to know of a functor.
struct Functor {
  core::MapOp op;
  const char* name;
  int arity;
  core::kernels::Domain domain;
  bool predicate;  ///< its result is bool

  /// True where the functor takes elements of this dtype.
  bool computes_in(DType dtype) const {
    using core::kernels::Domain;
    return domain == Domain::numbers || is_floating(dtype) == (domain == Domain::floats);
  }
  /// The dtype of a result that is stored as the operands are.
  DType result(DType stored) const { return predicate ? kBool : stored; }
};

template <class F>
constexpr Functor functor() {
  return {{core::kernels::MapList::index_of<F>()}, F::name, F::arity, F::domain, F::predicate};
}

template <class... Fs>
constexpr std::array<Functor, sizeof...(Fs)> functors(TypeList<Fs...>) {
  return {functor<Fs>()...};
}

inline constexpr auto kFunctors = functors(core::kernels::MapList{});

/// The kernel of `f` computing in `compute`, on the device of `out`.
inline void run(const Functor& f, std::span<const core::Array> inputs, DType compute,
                const core::Array& out) {
  std::vector<core::Operand> operands;
  for (int i = 0; i < f.arity; ++i) operands.emplace_back(inputs[static_cast<size_t>(i)]);
  core::backend(out.device()).run(core::call::Map{f.op, operands, compute, out});
}

}  // namespace hero::test
