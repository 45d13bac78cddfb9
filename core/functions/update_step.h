#pragma once
// UpdateBatch::add() and the functors that it takes; for the files of optimizers.
#include <array>
#include <bit>

#include <hero/core/functions/update.h>
#include <hero/core/kernels/optimizer_steps.h>

namespace hero::core {

template <class F>
void UpdateBatch::add(const typename F::template Step<double>& step, const Array& param,
                      const Array& grad, std::span<const Array* const> states, const Array* norms,
                      const Array* low) {
  static_assert(F::states <= kMaxUpdateStates);
  using Packed = std::array<double, kernels::kCoefficients<F>>;
  const auto coefficients = std::bit_cast<Packed>(step);
  add({{kernels::UpdateList::index_of<F>()}, F::name, F::states, kernels::TakesNorms<F>},
      coefficients, param, grad, states, norms, low);
}

}  // namespace hero::core
