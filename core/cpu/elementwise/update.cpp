// Optimizer steps: each functor of UpdateList as one loop over contiguous elements.
#include <algorithm>
#include <array>
#include <utility>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/functions/pieces.h>
#include <hero/core/functions/update.h>
#include <hero/core/kernels/updates.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

using UpdateKernel = void (*)(const UpdateItem& chunk, std::span<const double> coefficients);

// A Step<T> is nothing but its coefficients in order.
template <class F, class T>
typename F::template Step<T> make_step(std::span<const double> coefficients) {
  std::array<T, kernels::kCoefficients<F>> converted;
  for (size_t i = 0; i < converted.size(); ++i) converted[i] = static_cast<T>(coefficients[i]);
  return std::bit_cast<typename F::template Step<T>>(converted);
}

template <class F, class T>
typename F::template Step<T> step_of(const UpdateItem& chunk,
                                     std::span<const double> coefficients) {
  if constexpr (kernels::TakesNorms<F>) {
    return F::template scaled<T>(make_step<F, double>(coefficients), chunk.norms);
  } else {
    return make_step<F, T>(coefficients);
  }
}

// Values are copied out, stepped and copied back: the compiler cannot know that the arrays differ,
// and would otherwise store and load each again. ivdep promises it that elements do not meet.
template <class F, class P, size_t... I>
void run_loop(const UpdateItem& chunk, std::span<const double> coefficients,
              std::index_sequence<I...>) {
  using T = ComputeOf<P>;  // the states have it, too
  const auto step = step_of<F, T>(chunk, coefficients);
  auto* param = reinterpret_cast<P*>(chunk.param);
  const auto* grad = reinterpret_cast<const P*>(chunk.grad);
  T* const states[] = {reinterpret_cast<T*>(chunk.states[I])..., nullptr};
  const int64_t n = chunk.n;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T p = convert<T>(param[i]);
    T s[] = {states[I][i]..., T(0)};
    step(p, convert<T>(grad[i]), s[I]...);
    param[i] = convert<P>(p);
    ((states[I][i] = s[I]), ...);
  }
}

template <class F, class P>
void run_update(const UpdateItem& chunk, std::span<const double> coefficients) {
  run_loop<F, P>(chunk, coefficients, std::make_index_sequence<F::states>{});
}

template <class P, class... Fs>
UpdateKernel kernel_of(uint16_t index, TypeList<Fs...>) {
  static constexpr UpdateKernel table[] = {&run_update<Fs, P>...};
  return table[index];
}

UpdateKernel update_kernel(uint16_t index, DType dtype) {
  const kernels::UpdateList all;
  switch (dtype) {
    case DType::float64:
      return kernel_of<double>(index, all);
    case DType::float16:
      return kernel_of<Float16>(index, all);
    case DType::bfloat16:
      return kernel_of<BFloat16>(index, all);
    default:
      return kernel_of<float>(index, all);
  }
}

// Where the gradient and a copy of the parameter have 16 bits: the gradient is widened, the kernel
// run and the parameter rounded for so many elements at a time, which stay in the nearest cache.
constexpr int64_t kLowElements = 1024;

template <class H>
void run_low(UpdateKernel kernel, const UpdateItem& chunk, std::span<const double> coefficients) {
  alignas(64) float wide[kLowElements];
  UpdateItem part = chunk;
  part.grad = reinterpret_cast<const std::byte*>(wide);
  const auto* grad = reinterpret_cast<const H*>(chunk.grad);
  auto* low = reinterpret_cast<H*>(chunk.low);
  for (int64_t begin = 0; begin < chunk.n; begin += kLowElements) {
    part.n = std::min(kLowElements, chunk.n - begin);
    for (int64_t i = 0; i < part.n; ++i) wide[i] = convert<float>(grad[begin + i]);
    kernel(part, coefficients);
    const auto* param = reinterpret_cast<const float*>(part.param);
    for (int64_t i = 0; i < part.n; ++i) low[begin + i] = convert<H>(param[i]);
    part.param += part.n * item_size(kFloat32);
    for (std::byte*& state : part.states) {
      if (state) state += part.n * item_size(kFloat32);
    }
  }
}

void run_chunk(UpdateKernel kernel, const UpdateItem& chunk, std::span<const double> coefficients) {
  if (chunk.low == nullptr) return kernel(chunk, coefficients);
  chunk.low_dtype == DType::float16 ? run_low<Float16>(kernel, chunk, coefficients)
                                    : run_low<BFloat16>(kernel, chunk, coefficients);
}

// Elements [begin, end) of an item whose parameter has this dtype.
UpdateItem chunk_of(const UpdateItem& item, DType dtype, int64_t begin, int64_t end) {
  UpdateItem chunk = item;
  chunk.n = end - begin;
  chunk.param += begin * item_size(dtype);
  chunk.grad += begin * item_size(chunk.low ? chunk.low_dtype : dtype);
  if (chunk.low) chunk.low += begin * item_size(chunk.low_dtype);
  for (std::byte*& state : chunk.states) {
    if (state) state += begin * item_size(state_dtype(dtype));
  }
  return chunk;
}

}  // namespace

void CpuBackend::update(UpdateOp op, DType dtype, std::span<const UpdateItem> items,
                        std::span<const double> coefficients) {
  const UpdateKernel kernel = update_kernel(op.index, dtype);
  Pieces pieces;
  for (const UpdateItem& item : items) pieces.append(item.n);
  parallel_for(pieces.length(), kGrain, [&](int64_t begin, int64_t end) {
    pieces.each(begin, end, [&](size_t i, int64_t from, int64_t to) {
      run_chunk(kernel, chunk_of(items[i], dtype, from, to), coefficients);
    });
  });
}

}  // namespace hero::core::cpu
