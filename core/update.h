#pragma once
// update<F>(...): the one entry to elementwise optimizer steps.
#include <array>
#include <bit>
#include <initializer_list>

#include <hero/core/backend.h>
#include <hero/core/updates.h>

namespace hero::core {

/// What update() needs to know of a functor, without its type.
struct UpdateInfo {
  UpdateOp op;
  const char* name;
  int states;
};

/// The dtype of the states of a parameter: its own, but float32 for float16 and bfloat16, in which
/// a running mean of squares would stop moving.
constexpr DType state_dtype(DType param) {
  return param == kFloat16 || param == kBFloat16 ? kFloat32 : param;
}

namespace detail {
void update(const UpdateInfo& info, const Array& param, const Array& grad,
            std::span<const Array> states, std::span<const double> coefficients);
}  // namespace detail

/// One step over all elements, in one pass: `param` and `states` are changed in place. param and
/// grad share a floating dtype, states have state_dtype() of it; all have one shape and device, and
/// states are contiguous. float16 and bfloat16 are computed in float32 and rounded once. Slices of
/// the same elements of each give the same bits as the whole.
template <class F>
void update(const typename F::template Step<double>& step, const Array& param, const Array& grad,
            std::span<const Array> states) {
  using Packed = std::array<double, kernels::kCoefficients<F>>;
  const auto coefficients = std::bit_cast<Packed>(step);
  detail::update({{kernels::UpdateList::index_of<F>()}, F::name, F::states}, param, grad, states,
                 coefficients);
}

}  // namespace hero::core
