// Attention: the entry points, and the sums that both backward paths begin with.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/nn/attention_cudnn.cuh>
#include <hero/cuda/nn/attention_mma.cuh>

namespace hero::cuda {

namespace {

// along[b, h, t] = sum over e of g * out, a warp for each row; by its gradient a score's
// probability moves all others of its row.
template <class T>
__global__ void row_products_kernel(Heads<const T> g, Heads<const T> out, int64_t heads,
                                    int64_t rows, Sum<T>* along) {
  using C = Sum<T>;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t warps = grid_threads() / kWarp;
  for (int64_t i = global_thread() / kWarp; i < rows; i += warps) {
    const int64_t head = i / g.rows, t = i % g.rows;
    const Matrix<const T> a = g.of(head / heads, head % heads);
    const Matrix<const T> b = out.of(head / heads, head % heads);
    C sum = 0;
    for (int e = lane; e < a.columns; e += kWarp) {
      sum = std::fma(static_cast<C>(a.data[t * a.row + e * a.column]),
                     static_cast<C>(b.data[t * b.row + e * b.column]), sum);
    }
    for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (lane == 0) along[i] = sum;
  }
}

template <class T>
struct alignas(16) Eight {
  T at[8];
};

// The same for halves in aligned groups of 8: kLanes lanes for each row, a group each.
template <class T, int kLanes>
__global__ void aligned_row_products_kernel(Heads<const T> g, Heads<const T> out, int64_t heads,
                                            int64_t rows, float* along) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t step = grid_threads() / kLanes;
  // all lanes of a warp make as many turns as its last
  const int64_t of_warp = global_thread() / kWarp * (kWarp / kLanes);
  for (int64_t first = of_warp; first < rows; first += step) {
    const int64_t i = first + static_cast<int64_t>(threadIdx.x) % kWarp / kLanes;
    float sum = 0.0f;
    if (i < rows && 8 * lane < g.columns) {
      const int64_t head = i / g.rows, t = i % g.rows;
      const Matrix<const T> a = g.of(head / heads, head % heads);
      const Matrix<const T> b = out.of(head / heads, head % heads);
      const auto x =
          std::bit_cast<Eight<T>>(*reinterpret_cast<const uint4*>(a.data + t * a.row + 8 * lane));
      const auto y =
          std::bit_cast<Eight<T>>(*reinterpret_cast<const uint4*>(b.data + t * b.row + 8 * lane));
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        sum = std::fma(static_cast<float>(x.at[c]), static_cast<float>(y.at[c]), sum);
      }
    }
    for (int by = kLanes / 2; by > 0; by /= 2) sum += __shfl_xor_sync(kAllLanes, sum, by);
    if (i < rows && lane == 0) along[i] = sum;
  }
}

// True when x can be read and written by the tensor-core kernels: halves, whose rows are groups of
// 8 that lie together and are aligned.
bool in_aligned_rows(const Array& x) {
  if (x.dtype() != kBFloat16 && x.dtype() != kFloat16) return false;
  if (x.shape()[3] % 8 != 0 || x.shape()[3] > 128 || x.strides()[3] != 1) return false;
  for (int d = 0; d < 3; ++d) {
    if (x.shape()[d] > 1 && x.strides()[d] % 8 != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(x.bytes()) % 16 == 0;
}
bool all_in_aligned_rows(std::initializer_list<const Array*> arrays) {
  return std::all_of(arrays.begin(), arrays.end(),
                     [](const Array* x) { return in_aligned_rows(*x); });
}

template <class T, int kLanes>
void aligned_row_products(const Array& g, const Array& out, const Array& along) {
  launch("attention_backward", aligned_row_products_kernel<T, kLanes>,
         blocks_for(along.numel() * kLanes), dim3(kThreads), 0, Heads<const T>(g),
         Heads<const T>(out), g.shape()[1], along.numel(), reinterpret_cast<float*>(along.bytes()));
}

Array row_products(const Array& g, const Array& out, const Array& log_sum) {
  const Array along = log_sum.empty_like();
  dispatch_floats("attention_backward", g.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (sizeof(T) == 2) {
      if (all_in_aligned_rows({&g, &out})) {
        if (g.shape()[3] > 64) return aligned_row_products<T, 16>(g, out, along);
        return aligned_row_products<T, 8>(g, out, along);
      }
    }
    launch("attention_backward", row_products_kernel<T>, blocks_for(along.numel() * kWarp),
           dim3(kThreads), 0, Heads<const T>(g), Heads<const T>(out), g.shape()[1], along.numel(),
           reinterpret_cast<Sum<T>*>(along.bytes()));
  });
  return along;
}

void check_operands(const char* op, const AttentionScores& scores, const Array& q,
                    const Array& log_sum) {
  const DType sums = q.dtype() == kFloat64 ? kFloat64 : kFloat32;
  check(log_sum.dtype() == sums, op, ": log_sum is ", log_sum.dtype(), " beside q of ", q.dtype(),
        "; make it ", sums);
  check(scores.bias == nullptr || scores.bias->dtype() == sums, op, ": bias is ",
        scores.bias == nullptr ? sums : scores.bias->dtype(), " beside q of ", q.dtype(),
        "; convert it to ", sums);
}

}  // namespace

void CudaBackend::run(const call::Attention& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  check_operands("attention", call.scores, call.q, call.log_sum);
  if (all_in_aligned_rows({&call.q, &call.k, &call.v, &call.out})) {
    if (wants_cudnn(call.scores, call.k, call.v))
      return cudnn_attention(call.scores, call.q, call.k, call.v, call.out, call.log_sum);
    return mma_attention(call.scores, call.q, call.k, call.v, call.out, call.log_sum);
  }
  plain_attention(call.scores, call.q, call.k, call.v, call.out, call.log_sum);
}

void CudaBackend::run(const call::AttentionBack& call) {
  if (call.out.numel() == 0) {
    for (const Array* x : {&call.g_q, &call.g_k, &call.g_v}) run(call::Fill{*x, 0});
    return;
  }
  const DeviceGuard guard(index_);
  check_operands("attention_backward", call.scores, call.q, call.log_sum);
  const bool aligned =
      all_in_aligned_rows({&call.g, &call.q, &call.k, &call.v, &call.g_q, &call.g_k, &call.g_v});
  if (aligned && in_aligned_rows(call.out) && wants_cudnn(call.scores, call.k, call.v)) {
    return cudnn_attention_backward(call.scores, call.g, call.q, call.k, call.v, call.out,
                                    call.log_sum, call.g_q, call.g_k, call.g_v);
  }
  const Array along = row_products(call.g, call.out, call.log_sum);
  if (aligned) {
    return mma_attention_backward(call.scores, call.g, call.q, call.k, call.v, call.log_sum, along,
                                  call.g_q, call.g_k, call.g_v);
  }
  plain_attention_backward(call.scores, call.g, call.q, call.k, call.v, call.log_sum, along,
                           call.g_q, call.g_k, call.g_v);
}

}  // namespace hero::cuda
