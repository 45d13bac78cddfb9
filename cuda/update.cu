// Optimizer steps: each functor of UpdateList as a kernel over several parameters at once.
#include <array>
#include <utility>

#include <hero/core/updates.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elements.cuh>
#include <hero/cuda/graph.cuh>

namespace hero::cuda {

namespace {

constexpr int kMaxStates = 3;
// Tensors of one launch: their addresses travel with its parameters, of which there are 4 KB.
constexpr int kMaxTensors = 32;
// Vectors that each thread of a block steps.
constexpr int kVectorsAThread = 4;

/// Which elements a launch steps, and which of its blocks belong to which tensor.
struct UpdateTable {
  int tensors = 0;
  uint32_t first_block[kMaxTensors + 1] = {};  ///< of each tensor, then the number of all
  bool vectors[kMaxTensors];                   ///< every address is that of a vector
  int64_t sizes[kMaxTensors];
  std::byte* param[kMaxTensors];
  const std::byte* grad[kMaxTensors];
  std::byte* states[kMaxStates][kMaxTensors];
};

// A Step<T> is nothing but its coefficients in order.
template <class F, class T>
typename F::template Step<T> make_step(std::span<const double> coefficients) {
  std::array<T, core::kernels::kCoefficients<F>> converted;
  for (size_t i = 0; i < converted.size(); ++i) converted[i] = static_cast<T>(coefficients[i]);
  return std::bit_cast<typename F::template Step<T>>(converted);
}

/// Neighbours of one thread: 16 bytes of a state.
template <class P>
inline constexpr int kUpdateVector = kVectorBytes / sizeof(ComputeOf<P>);

template <class F, class P, size_t... I>
__device__ void step_vector(const typename F::template Step<ComputeOf<P>>& step, P* param,
                            const P* grad, [[maybe_unused]] ComputeOf<P>* const* states,
                            int64_t have, bool whole, std::index_sequence<I...>) {
  using T = ComputeOf<P>;
  constexpr int kVector = kUpdateVector<P>;
  T p[kVector], g[kVector], s[F::states + 1][kVector];
  read_vector(param, have, p, whole);
  read_vector(grad, have, g, whole);
  (read_vector(states[I], have, s[I], whole), ...);
#pragma unroll
  for (int j = 0; j < kVector; ++j) step(p[j], g[j], s[I][j]...);
  write_vector(param, have, p, whole);
  (write_vector(states[I], have, s[I], whole), ...);
}

template <class F, class P>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const UpdateTable table, const typename F::template Step<ComputeOf<P>> step) {
  using T = ComputeOf<P>;
  constexpr int kVector = kUpdateVector<P>;
  int tensor = 0;
  while (blockIdx.x >= table.first_block[tensor + 1]) ++tensor;
  const int64_t n = table.sizes[tensor];
  auto* param = reinterpret_cast<P*>(table.param[tensor]);
  const auto* grad = reinterpret_cast<const P*>(table.grad[tensor]);
  const int64_t block = blockIdx.x - table.first_block[tensor];
  const int64_t begin = block * (kThreads * kVectorsAThread * kVector);
#pragma unroll 1
  for (int i = 0; i < kVectorsAThread; ++i) {
    const int64_t e = begin + (i * kThreads + static_cast<int>(threadIdx.x)) * kVector;
    if (e >= n) return;
    T* states[F::states + 1] = {};
#pragma unroll
    for (int k = 0; k < F::states; ++k) {
      states[k] = reinterpret_cast<T*>(table.states[k][tensor]) + e;
    }
    constexpr std::make_index_sequence<F::states> kStates;
    step_vector<F>(step, param + e, grad + e, states, n - e, table.vectors[tensor], kStates);
  }
}

template <class F, class P>
void run_update(const UpdateTable& table, std::span<const double> coefficients) {
  static_assert(F::states <= kMaxStates);
  launch("update", update_kernel<F, P>, dim3(table.first_block[table.tensors]), dim3(kThreads), 0,
         table, make_step<F, ComputeOf<P>>(coefficients));
}

using UpdateLaunch = void (*)(const UpdateTable&, std::span<const double>);

template <class P, class... Fs>
UpdateLaunch launch_of(uint16_t index, TypeList<Fs...>) {
  static constexpr UpdateLaunch table[] = {&run_update<Fs, P>...};
  return table[index];
}

UpdateLaunch update_launch(uint16_t index, DType dtype) {
  const core::kernels::UpdateList all;
  switch (dtype) {
    case DType::float64:
      return launch_of<double>(index, all);
    case DType::float16:
      return launch_of<Float16>(index, all);
    case DType::bfloat16:
      return launch_of<BFloat16>(index, all);
    default:
      return launch_of<float>(index, all);
  }
}

void append(UpdateTable& table, const Array& param, const Array& grad,
            std::span<const Array> states) {
  const int at = table.tensors++;
  const int64_t vector = kVectorBytes / (param.dtype() == kFloat64 ? 8 : 4);
  const int64_t chunk = kThreads * kVectorsAThread * vector;
  const auto bytes = static_cast<size_t>(vector * item_size(param.dtype()));
  table.sizes[at] = param.numel();
  table.param[at] = param.bytes();
  table.grad[at] = grad.bytes();
  table.vectors[at] = aligned(param.bytes(), bytes) && aligned(grad.bytes(), bytes);
  for (size_t k = 0; k < states.size(); ++k) {
    table.states[k][at] = states[k].bytes();
    table.vectors[at] = table.vectors[at] && aligned(states[k].bytes(), kVectorBytes);
  }
  table.first_block[at + 1] =
      table.first_block[at] + static_cast<uint32_t>((param.numel() + chunk - 1) / chunk);
}

}  // namespace

void CudaBackend::update(UpdateOp op, const Array& param, const Array& grad,
                         std::span<const Array> states, std::span<const double> coefficients) {
  if (param.numel() == 0) return;
  const DeviceGuard guard(index_);
  note_values("update", coefficients);
  UpdateTable table;
  append(table, param, grad, states);
  update_launch(op.index, param.dtype())(table, coefficients);
}

}  // namespace hero::cuda
