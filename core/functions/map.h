#pragma once
// map<F>(...): the entry to all elementwise kernels. It checks, broadcasts and promotes its inputs
// and allocates the result.
#include <initializer_list>

#include <hero/core/device/backend.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::core {

/// The properties of a functor that map() uses, without its type.
struct MapInfo {
  MapOp op;
  const char* name;
  bool floats_only;
  bool integers_only;
  bool predicate;
};

template <class F>
inline constexpr MapInfo kMapInfo{{kernels::MapList::index_of<F>()},
                                  F::name,
                                  F::domain == kernels::Domain::floats,
                                  F::domain == kernels::Domain::integers,
                                  F::predicate};

namespace detail {
Array map(const MapInfo& info, std::span<const Operand> inputs);
void map_into(const MapInfo& info, std::span<const Operand> inputs, const Array& out);
}  // namespace detail

/// The functor F of every element. Arrays broadcast to one shape (NumPy's rule) and promote to one
/// dtype; scalars take the arrays' dtype. The result is a new array.
template <class F, class... In>
Array map(const In&... inputs) {
  static_assert(sizeof...(In) == F::arity);
  const Operand operands[] = {Operand(inputs)...};
  return detail::map(kMapInfo<F>, operands);
}

/// The same, written into `out`, which keeps its shape and dtype and may be one of the inputs.
template <class F, class... In>
void map_into(const Array& out, const In&... inputs) {
  static_assert(sizeof...(In) == F::arity);
  const Operand operands[] = {Operand(inputs)...};
  detail::map_into(kMapInfo<F>, operands, out);
}

}  // namespace hero::core
