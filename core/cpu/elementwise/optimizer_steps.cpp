// Optimizer steps: each functor of UpdateList as one loop over contiguous elements.
#include <algorithm>
#include <array>
#include <utility>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/functions/pieces.h>
#include <hero/core/functions/update.h>
#include <hero/core/kernels/optimizer_steps.h>
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
template <class F, class T, size_t... I>
void run_loop(const UpdateItem& chunk, std::span<const double> coefficients,
              std::index_sequence<I...>) {
  const auto step = step_of<F, T>(chunk, coefficients);
  auto* param = reinterpret_cast<T*>(chunk.param);
  const auto* grad = reinterpret_cast<const T*>(chunk.grad);
  T* const states[] = {reinterpret_cast<T*>(chunk.states[I])..., nullptr};
  const int64_t n = chunk.n;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T p = param[i];
    T s[] = {states[I][i]..., T(0)};
    step(p, grad[i], s[I]...);
    param[i] = p;
    ((states[I][i] = s[I]), ...);
  }
}

template <class F, class T>
void run_update(const UpdateItem& chunk, std::span<const double> coefficients) {
  run_loop<F, T>(chunk, coefficients, std::make_index_sequence<F::states>{});
}

template <class T, class... Fs>
UpdateKernel kernel_of(uint16_t index, TypeList<Fs...>) {
  static constexpr UpdateKernel table[] = {&run_update<Fs, T>...};
  return table[index];
}

// Where numbers have 16 bits: they are widened, the kernel for float32 run and the parameter
// rounded for so many elements at a time, which stay in the nearest cache.
constexpr int64_t kHalfElements = 1024;

// The gradient is of type H, and either the parameter or the copy of it.
template <class H>
void run_half(UpdateKernel kernel, const UpdateItem& chunk, std::span<const double> coefficients) {
  alignas(64) float params[kHalfElements], grads[kHalfElements];
  UpdateItem part = chunk;
  part.grad = reinterpret_cast<const std::byte*>(grads);
  const auto* grad = reinterpret_cast<const H*>(chunk.grad);
  auto* half = reinterpret_cast<H*>(chunk.low ? chunk.low : chunk.param);
  for (int64_t begin = 0; begin < chunk.n; begin += kHalfElements) {
    part.n = std::min(kHalfElements, chunk.n - begin);
    for (int64_t i = 0; i < part.n; ++i) grads[i] = convert<float>(grad[begin + i]);
    if (!chunk.low) {
      for (int64_t i = 0; i < part.n; ++i) params[i] = convert<float>(half[begin + i]);
      part.param = reinterpret_cast<std::byte*>(params);
    }
    kernel(part, coefficients);
    const auto* param = reinterpret_cast<const float*>(part.param);
    for (int64_t i = 0; i < part.n; ++i) half[begin + i] = convert<H>(param[i]);
    part.param += part.n * item_size(kFloat32);
    for (std::byte*& state : part.states) {
      if (state) state += part.n * item_size(kFloat32);
    }
  }
}

void run_chunk(UpdateOp op, DType dtype, const UpdateItem& chunk,
               std::span<const double> coefficients) {
  const kernels::UpdateList all;
  if (dtype == kFloat64) return kernel_of<double>(op.index, all)(chunk, coefficients);
  const UpdateKernel kernel = kernel_of<float>(op.index, all);
  switch (chunk.low ? chunk.low_dtype : dtype) {
    case DType::float16:
      return run_half<Float16>(kernel, chunk, coefficients);
    case DType::bfloat16:
      return run_half<BFloat16>(kernel, chunk, coefficients);
    default:
      return kernel(chunk, coefficients);
  }
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

void BasicKernels::run(const call::Update& call) {
  Pieces pieces;
  for (const UpdateItem& item : call.items) pieces.append(item.n);
  parallel_for(pieces.length(), kGrain, [&](int64_t begin, int64_t end) {
    pieces.each(begin, end, [&](size_t i, int64_t from, int64_t to) {
      run_chunk(call.op, call.dtype, chunk_of(call.items[i], call.dtype, from, to),
                call.coefficients);
    });
  });
}

}  // namespace hero::core::cpu
