// Bias and activation in a product's memory, in one pass.
#include <hero/core/kernels/elementwise.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/elementwise/walk.cuh>

namespace hero::cuda {

namespace {

struct Identity {
  template <class T>
  HERO_HD T operator()(T x) const {
    return x;
  }
};

template <class S>
struct BiasArgs {
  S* z;
  S* out;
  const S* bias;       ///< may be null
  uint32_t count;      ///< of elements
  Divider columns;     ///< of a row
  Divider channels;    ///< rows until the bias repeats
  uint32_t first_row;  ///< of this launch, among the channels
  bool per_row;        ///< one number a row, else one a column
  bool bias_vectors;   ///< a vector never spans two rows, and the bias' addresses are those of
                       ///< vectors
  bool vectors;        ///< those of z and out are
};

// The biases of neighbouring elements from e on, which may go over the end of a row.
template <int N, class T, class S>
__device__ void read_bias(const BiasArgs<S>& args, uint32_t e, T (&values)[N]) {
  uint32_t row = args.columns(e), column = e - row * args.columns.divisor;
  if (args.bias_vectors && !args.per_row) return read_vector(args.bias + column, N, values);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const uint32_t shifted = row + args.first_row;
    const uint32_t channel = shifted - args.channels(shifted) * args.channels.divisor;
    values[j] = convert<T>(args.bias[args.per_row ? channel : column]);
    if (++column == args.columns.divisor) {
      column = 0;
      ++row;
    }
  }
}

// A sum is rounded to S before the activation sees it, whether or not it is kept: a backward pass
// that reads z finds what the activation was given.
template <class F, class S>
__global__ void __launch_bounds__(kThreads) bias_activation_kernel(const BiasArgs<S> args) {
  using T = ComputeOf<S>;
  constexpr int kVector = kVectorBytes / sizeof(S);
  const F f;
  const auto step = static_cast<uint32_t>(grid_threads() * kVector);
  for (auto e = static_cast<uint32_t>(global_thread() * kVector); e < args.count; e += step) {
    const int64_t have = args.count - e;
    T values[kVector];
    read_vector(args.z + e, have, values, args.vectors);
    if (args.bias) {
      T bias[kVector];
      read_bias(args, e, bias);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        values[j] = convert<T>(convert<S>(values[j] + bias[j]));
      }
      if (args.z != args.out) write_vector(args.z + e, have, values, args.vectors);
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) values[j] = f(values[j]);
    write_vector(args.out + e, have, values, args.vectors);
  }
}

template <class F, class S>
void run(const Array* bias, const Array& z, const Array& out) {
  constexpr int64_t kVector = kVectorBytes / sizeof(S);
  const int64_t columns = z.shape().back(), rows = z.numel() / columns;
  check(columns < kMaxPositions / 2, "bias_activation: a row of ", columns,
        " elements is longer than kernels count; split it");
  BiasArgs<S> args;
  args.bias = bias ? reinterpret_cast<const S*>(bias->bytes()) : nullptr;
  args.columns = Divider(static_cast<uint32_t>(columns));
  args.per_row = bias && bias->ndim() == 2;
  const int64_t channels = args.per_row ? bias->size(0) : 1;
  args.channels = Divider(static_cast<uint32_t>(channels));
  args.vectors = aligned(z.bytes(), kVectorBytes) && aligned(out.bytes(), kVectorBytes);
  args.bias_vectors = bias && columns % kVector == 0 && aligned(bias->bytes(), kVectorBytes);
  // Launches of whole multiples of the vector's rows, so that all begin at a vector.
  const int64_t limit = std::max<int64_t>(1, kMaxPositions / 2 / columns / kVector) * kVector;
  for (int64_t first = 0; first < rows; first += limit) {
    const int64_t here = std::min(limit, rows - first);
    args.z = reinterpret_cast<S*>(z.bytes()) + first * columns;
    args.out = reinterpret_cast<S*>(out.bytes()) + first * columns;
    args.count = static_cast<uint32_t>(here * columns);
    args.first_row = static_cast<uint32_t>(first % channels);
    launch("bias_activation", bias_activation_kernel<F, S>,
           loop_blocks((here * columns + kVector - 1) / kVector), dim3(kThreads), 0, args);
  }
}

template <class S>
void run_as(Activation activation, const Array* bias, const Array& z, const Array& out) {
  switch (activation) {
    case Activation::none:
      if (!bias && z.bytes() == out.bytes()) return;
      return run<Identity, S>(bias, z, out);
    case Activation::relu:
      return run<core::kernels::Relu, S>(bias, z, out);
    case Activation::gelu:
      return run<core::kernels::Gelu, S>(bias, z, out);
    case Activation::gelu_tanh:
      return run<core::kernels::GeluTanh, S>(bias, z, out);
  }
}

}  // namespace

void CudaBackend::run(const call::BiasActivation& call) {
  if (call.z.numel() == 0) return;
  const DeviceGuard guard(index_);
  switch (call.z.dtype()) {
    case DType::float64:
      return run_as<double>(call.activation, call.bias, call.z, call.out);
    case DType::bfloat16:
      return run_as<BFloat16>(call.activation, call.bias, call.z, call.out);
    case DType::float16:
      return run_as<Float16>(call.activation, call.bias, call.z, call.out);
    default:
      return run_as<float>(call.activation, call.bias, call.z, call.out);
  }
}

}  // namespace hero::cuda
