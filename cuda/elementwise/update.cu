// Optimizer steps: each functor of UpdateList as a kernel over several parameters at once.
#include <array>
#include <cstring>
#include <utility>

#include <hero/core/kernels/optimizer_steps.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/tensor_table.cuh>
#include <hero/cuda/runtime/graph.cuh>

namespace hero::cuda {

namespace {

constexpr int kMaxTensors = 64;  // of one launch
// Vectors that each thread of a block steps.
constexpr int kVectorsAThread = 4;

/// Which elements a launch steps.
struct UpdateTable {
  Shares<kMaxTensors> blocks;
  bool vectors[kMaxTensors];  ///< every address is that of a vector
  int64_t sizes[kMaxTensors];
  std::byte* param[kMaxTensors];
  const std::byte* grad[kMaxTensors];
  std::byte* states[kMaxUpdateStates][kMaxTensors];
  /// Two numbers for functors that take them, or a parameter's copy in 16 bits, or null.
  void* beside[kMaxTensors];
  DType low_dtype = DType::float32;  ///< of gradients and copies, where they have 16 bits: of all
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

// H: what the gradient has; where it is not P, `low` becomes the parameter in it.
template <class F, class H, class P, size_t... I>
__device__ void step_vector(const typename F::template Step<ComputeOf<P>>& step, P* param,
                            const H* grad, [[maybe_unused]] H* low,
                            [[maybe_unused]] ComputeOf<P>* const* states, int64_t have, bool whole,
                            std::index_sequence<I...>) {
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
  if constexpr (!std::is_same_v<H, P>) write_vector(low, have, p, whole);
}

/// What coefficients are converted to on the host; those that depend on norms are not done then.
template <class F, class P>
using GivenOf = std::conditional_t<core::kernels::TakesNorms<F>, double, ComputeOf<P>>;

template <class F, class T, class Given>
__device__ typename F::template Step<T> step_of(const Given& given,
                                                [[maybe_unused]] const double* norms) {
  if constexpr (core::kernels::TakesNorms<F>) {
    return F::template scaled<T>(given, norms);
  } else {
    return given;
  }
}

template <class F, class H, class P>
__device__ void step_low(const typename F::template Step<float>& step, const UpdateTable& table,
                         int tensor, P* param, float* const* states, int64_t e, int64_t have) {
  constexpr std::make_index_sequence<F::states> kStates;
  step_vector<F>(step, param, reinterpret_cast<const H*>(table.grad[tensor]) + e,
                 static_cast<H*>(table.beside[tensor]) + e, states, have, table.vectors[tensor],
                 kStates);
}

// Blocks of a multiprocessor, which say how many registers a thread may have.
template <class P>
inline constexpr int kUpdateBlocks = std::is_same_v<ComputeOf<P>, double> ? 3 : 4;

template <class F, class P>
__global__ void __launch_bounds__(kThreads, kUpdateBlocks<P>)
    update_kernel(const UpdateTable table, const typename F::template Step<GivenOf<F, P>> given,
                  const typename F::template Step<GivenOf<F, P>>* live) {
  using T = ComputeOf<P>;
  constexpr int kVector = kUpdateVector<P>;
  const int tensor = table.blocks.find(blockIdx.x);
  const int64_t n = table.sizes[tensor];
  auto* param = reinterpret_cast<P*>(table.param[tensor]);
  const auto* grad = reinterpret_cast<const P*>(table.grad[tensor]);
  const int64_t block = blockIdx.x - table.blocks.first[tensor];
  const int64_t begin = block * (kThreads * kVectorsAThread * kVector);
  const auto step =
      step_of<F, T>(live ? *live : given, static_cast<const double*>(table.beside[tensor]));
#pragma unroll 1
  for (int i = 0; i < kVectorsAThread; ++i) {
    const int64_t e = begin + (i * kThreads + static_cast<int>(threadIdx.x)) * kVector;
    if (e >= n) return;
    T* states[F::states + 1] = {};
#pragma unroll
    for (int k = 0; k < F::states; ++k) {
      states[k] = reinterpret_cast<T*>(table.states[k][tensor]) + e;
    }
    if constexpr (std::is_same_v<P, float> && !core::kernels::TakesNorms<F>) {
      if (table.low_dtype == DType::bfloat16) {
        step_low<F, BFloat16>(step, table, tensor, param + e, states, e, n - e);
        continue;
      }
      if (table.low_dtype == DType::float16) {
        step_low<F, Float16>(step, table, tensor, param + e, states, e, n - e);
        continue;
      }
    }
    constexpr std::make_index_sequence<F::states> kStates;
    step_vector<F>(step, param + e, grad + e, static_cast<P*>(nullptr), states, n - e,
                   table.vectors[tensor], kStates);
  }
}

/// An update of one functor and dtype.
struct Update {
  /// Steps what the table holds; kernels read their coefficients at `live`, if that is not null.
  void (*launch)(const UpdateTable& table, std::span<const double> coefficients,
                 const std::byte* live);
  /// Writes the coefficients as kernels read them.
  void (*write)(std::span<const double> coefficients, std::byte* to);
};

template <class F, class P>
void launch_update(const UpdateTable& table, std::span<const double> coefficients,
                   const std::byte* live) {
  using Step = typename F::template Step<GivenOf<F, P>>;
  static_assert(sizeof(UpdateTable) + sizeof(Step) + sizeof(void*) <= kMostParameterBytes);
  launch("update", update_kernel<F, P>, dim3(table.blocks.all()), dim3(kThreads), 0, table,
         make_step<F, GivenOf<F, P>>(coefficients), reinterpret_cast<const Step*>(live));
}

template <class F, class P>
void write_step(std::span<const double> coefficients, std::byte* to) {
  const auto step = make_step<F, GivenOf<F, P>>(coefficients);
  static_assert(sizeof(step) <= LiveCoefficients::kSlotBytes);
  std::memcpy(to, &step, sizeof(step));
}

template <class P, class... Fs>
Update update_of(uint16_t index, TypeList<Fs...>) {
  static constexpr Update table[] = {{&launch_update<Fs, P>, &write_step<Fs, P>}...};
  return table[index];
}

Update find_update(uint16_t index, DType dtype) {
  const core::kernels::UpdateList all;
  switch (dtype) {
    case DType::float64:
      return update_of<double>(index, all);
    case DType::float16:
      return update_of<Float16>(index, all);
    case DType::bfloat16:
      return update_of<BFloat16>(index, all);
    default:
      return update_of<float>(index, all);
  }
}

void append(UpdateTable& table, DType dtype, const UpdateItem& item) {
  const int64_t vector = kVectorBytes / (dtype == kFloat64 ? 8 : 4);
  const int at = table.blocks.append(item.n, kThreads * kVectorsAThread * vector);
  const auto bytes = static_cast<size_t>(vector * item_size(dtype));
  const auto low_bytes = static_cast<size_t>(vector * item_size(item.low_dtype));
  table.sizes[at] = item.n;
  table.param[at] = item.param;
  table.grad[at] = item.grad;
  table.beside[at] = item.low ? static_cast<void*>(item.low) : const_cast<double*>(item.norms);
  table.low_dtype = item.low_dtype;
  table.vectors[at] = aligned(item.param, bytes) &&
                      aligned(item.grad, item.low ? low_bytes : bytes) &&
                      (!item.low || aligned(item.low, low_bytes));
  for (size_t k = 0; k < item.states.size(); ++k) {
    table.states[k][at] = item.states[k];
    table.vectors[at] = table.vectors[at] && aligned(item.states[k], kVectorBytes);
  }
}

}  // namespace

void CudaBackend::run(const call::Update& call) {
  const DeviceGuard guard(index_);
  const Update run = find_update(call.op.index, call.dtype);
  LiveCoefficients::Slot slot;
  if (LiveCoefficients* const live = LiveCoefficients::current()) {
    slot = live->next(call.op, call.dtype, call.items);
    if (slot.host) run.write(call.coefficients, slot.host);
    if (!slot.launches) return;
  } else {
    note_values("update", call.coefficients);
  }
  UpdateTable table;
  const auto flush = [&] {
    if (table.blocks.tensors > 0) run.launch(table, call.coefficients, slot.device);
    table.blocks = {};
  };
  for (const UpdateItem& item : call.items) {
    if (item.n == 0) continue;
    if (table.blocks.full() || item.low_dtype != table.low_dtype) flush();
    append(table, call.dtype, item);
  }
  flush();
}

}  // namespace hero::cuda
