// Matrix products: floats by cuBLASLt, integers by a kernel of our own.
#include <hero/core/functions/matmul.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/libraries/products.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

constexpr int kTile = 16;
constexpr int64_t kMaxGrid = 65535;  // of the second and third dimension

// A batch of matrices by its strides.
template <class T>
struct Matrices {
  T* data;
  int64_t batch, row, column;

  explicit Matrices(const Array& x)
      : data(reinterpret_cast<T*>(x.bytes())),
        batch(x.strides()[0]),
        row(x.strides()[1]),
        column(x.strides()[2]) {}
  __device__ T& at(int64_t b, int64_t i, int64_t j) const {
    return data[b * batch + i * row + j * column];
  }
};

// Integers: exact, modulo 2^64. A block makes a tile of out from tiles of a and b.
template <class T>
__global__ void integer_product_kernel(Matrices<const T> a, Matrices<const T> b, Matrices<T> out,
                                       int64_t batch, int64_t rows, int64_t columns,
                                       int64_t depth) {
  __shared__ uint64_t left[kTile][kTile + 1], right[kTile][kTile + 1];
  const auto x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kTile + x;
  for (int64_t p = blockIdx.z; p < batch; p += gridDim.z) {
    for (int64_t top = static_cast<int64_t>(blockIdx.y) * kTile; top < rows;
         top += static_cast<int64_t>(gridDim.y) * kTile) {
      const int64_t i = top + y;
      uint64_t total = 0;
      for (int64_t first = 0; first < depth; first += kTile) {
        const bool has_left = i < rows && first + x < depth;
        const bool has_right = first + y < depth && j < columns;
        left[y][x] = has_left ? static_cast<uint64_t>(a.at(p, i, first + x)) : 0;
        right[y][x] = has_right ? static_cast<uint64_t>(b.at(p, first + y, j)) : 0;
        __syncthreads();
        for (int q = 0; q < kTile; ++q) total += left[y][q] * right[q][x];
        __syncthreads();
      }
      if (i < rows && j < columns) out.at(p, i, j) = static_cast<T>(total);
    }
  }
}

template <class T>
void integer_product(const Array& a, const Array& b, const Array& out) {
  const int64_t batch = out.size(0), rows = out.size(1), columns = out.size(2);
  const auto blocks = [](int64_t n) { return static_cast<unsigned>(std::min(n, kMaxGrid)); };
  const auto tiles = [](int64_t n) { return (n + kTile - 1) / kTile; };
  const dim3 grid(static_cast<unsigned>(tiles(columns)), blocks(tiles(rows)), blocks(batch));
  launch("matmul", integer_product_kernel<T>, grid, dim3(kTile, kTile), 0, Matrices<const T>(a),
         Matrices<const T>(b), Matrices<T>(out), batch, rows, columns, a.size(2));
}

// Whether gelu by tanh may be an epilogue: that of cuBLASLt is good to some 2^-19, in float64, too,
// which halves do not see.
bool may_fuse_gelu(const Array& u) { return item_size(u.dtype()) == 2 && can_be_aux(u); }

// A matrix as a batch of one.
Array one(const Array& x) { return x.unsqueeze(0); }

bool is_empty(const call::LinearBack& back) {
  return back.g.numel() == 0 || (back.g_x.defined() ? back.g_x : back.g_w).numel() == 0;
}

bool fused_input_backward(const call::LinearBack& back) {
  if (!back.g_x.defined() || is_empty(back)) return false;
  if (back.activation != Activation::gelu_tanh || !may_fuse_gelu(back.u)) return false;
  return product("linear_backward", one(back.g), one(back.w), one(back.g_x),
                 {CUBLASLT_EPILOGUE_DGELU, nullptr, back.u.bytes()},
                 [&] { plain_input_backward(back); });
}

// The library's second factor is our first.
bool fused_weight_backward(const call::LinearBack& back) {
  if (!back.g_w.defined() || !back.g_bias.defined() || is_empty(back)) return false;
  return product("linear_backward", one(back.g.t()), one(back.x), one(back.g_w),
                 {CUBLASLT_EPILOGUE_BGRADB, back.g_bias.bytes()},
                 [&] { plain_weight_backward(back); });
}

}  // namespace

void CudaBackend::run(const call::Matmul& call) {
  if (call.out.numel() == 0) return;
  if (call.a.size(2) == 0) return run(call::Fill{call.out, 0});
  const DeviceGuard guard(index_);
  switch (call.out.dtype()) {
    case DType::int64:
      return integer_product<int64_t>(call.a, call.b, call.out);
    case DType::int32:
      return integer_product<int32_t>(call.a, call.b, call.out);
    case DType::uint8:
      return integer_product<uint8_t>(call.a, call.b, call.out);
    case DType::boolean:
      fail("matmul: bool matrices have no product; convert with to()");
    default:
      product("matmul", call.a, call.b, call.out);
  }
}

// cuBLASLt reads any dense matrix as quickly as any other.
PackedMatrix CudaBackend::run(const call::PackMatrix& call) {
  const DeviceGuard guard(index_);
  return {call.b.size(0), call.b.size(1), call.b.contiguous().reshape({call.b.numel()})};
}

void CudaBackend::run(const call::MatmulPacked& call) {
  run(call::Matmul{one(call.a), one(call.b.panels.reshape({call.b.rows, call.b.columns})),
                   one(call.out)});
}

// [note: epilogues] The bias, and of halves gelu by tanh with what it is taken of, are done by the
// product itself where the library can, and is no slower: the sums are never read again. So are the
// way back through gelu and the sums that are gradients of biases. Its relu would drop NaN and
// stays out.
void CudaBackend::run(const call::Linear& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Array& sums = call.z ? *call.z : call.out;
  const Array a = one(call.x), b = one(call.w.t());
  const auto in_parts = [&] {
    run(call::Matmul{a, b, one(sums)});
    if (call.bias || call.activation != Activation::none || call.z)
      run(call::BiasActivation{call.activation, call.bias, sums, call.out});
  };
  if (!call.bias || call.x.numel() == 0) return in_parts();
  const Array shift = is_aligned(*call.bias) ? *call.bias : call.bias->clone();
  const auto with_bias = [&] {
    if (!product("linear", a, b, one(sums), {CUBLASLT_EPILOGUE_BIAS, shift.bytes()},
                 std::ref(in_parts))) {
      return in_parts();
    }
    if (call.activation != Activation::none || call.z)
      run(call::BiasActivation{call.activation, nullptr, sums, call.out});
  };
  const bool has_gelu = call.activation == Activation::gelu_tanh && call.z &&
                        may_fuse_gelu(*call.z) &&
                        product("linear", a, b, one(call.out),
                                {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, shift.bytes(), call.z->bytes()},
                                std::ref(with_bias));
  if (!has_gelu) with_bias();
}

void CudaBackend::run(const call::LinearBack& asked) {
  const DeviceGuard guard(index_);
  call::LinearBack back = asked;
  back.g = back.g.contiguous();  // read by up to three
  if (!fused_input_backward(back)) plain_input_backward(back);
  if (!fused_weight_backward(back)) plain_weight_backward(back);
}

}  // namespace hero::cuda
