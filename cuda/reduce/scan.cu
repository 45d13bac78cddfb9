// Running sums and products. A block walks along its line tile by tile and carries the total so
// far; if there are too few lines to keep the GPU busy, each is cut into chunks, whose totals are
// scanned first. Floats are accumulated in double, as on the CPU.
#include <hero/core/kernels/wrapping.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/reduce/lines.cuh>

namespace hero::cuda {

namespace {

template <class E>
using Carried = std::conditional_t<std::is_integral_v<E>, E, double>;

template <class A>
struct ScanJoin {
  bool product;
  __device__ A none() const { return product ? A(1) : A(0); }
  __device__ A operator()(A a, A b) const {
    return product ? core::wrapping_mul(a, b) : core::wrapping_add(a, b);
  }
};

constexpr int kItems = 4;  // neighbouring elements of one thread
constexpr int kTile = kThreads * kItems;

template <class E>
struct ScanShape {
  const E* x;
  Lines in;
  E* out;  // null: only totals are wanted
  Lines to;
  bool product, backward;
  int64_t chunk;             // elements of a line for each of the grid's blocks along y
  Carried<E>* totals;        // [lines, chunks]: of each chunk; null where nobody wants them
  const Carried<E>* before;  // [lines, chunks]: of all chunks up to each; null where there is one
};

// Every thread's value joined with those of all threads before it; also the block's total.
template <class A>
__device__ A block_scan(A value, ScanJoin<A> join, A& total) {
  __shared__ A parts[kThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int by = 1; by < kWarp; by *= 2) {
    const A other = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(by));
    if (lane >= by) value = join(other, value);
  }
  __syncthreads();  // the parts of the tile before have been read
  if (lane == kWarp - 1) parts[warp] = value;
  __syncthreads();
  A prefix = join.none();
  total = join.none();
  for (int w = 0; w < kThreads / kWarp; ++w) {
    if (w == warp) prefix = total;
    total = join(total, parts[w]);
  }
  return join(prefix, value);
}

template <class E>
__global__ void scan_blocks_kernel(const ScanShape<E> shape) {
  using A = Carried<E>;
  using C = Compute<E>;
  const ScanJoin<A> join{shape.product};
  const int64_t line = blockIdx.x, n = shape.in.n, cell = line * gridDim.y + blockIdx.y;
  const int64_t begin = blockIdx.y * shape.chunk;
  const int64_t end = begin + shape.chunk < n ? begin + shape.chunk : n;
  const E* from = shape.x + shape.in.starts.at(line);
  A carry = shape.before != nullptr && blockIdx.y > 0 ? shape.before[cell - 1] : join.none();
  for (int64_t tile = begin; tile < end; tile += kTile) {
    const int64_t first = tile + int64_t{threadIdx.x} * kItems;
    A value[kItems], running = join.none();
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      const int64_t i = first + k, at = shape.backward ? n - 1 - i : i;
      if (i < end) {
        running = join(running, static_cast<A>(convert<C>(from[at * shape.in.stride])));
      }
      value[k] = running;
    }
    A total;
    const A up_to = block_scan(running, join, total);
    // What is before this thread: its warp neighbour's result, exactly as the neighbour has it.
    __shared__ A ends[kThreads];
    ends[threadIdx.x] = up_to;
    __syncthreads();
    const A before = join(carry, threadIdx.x > 0 ? ends[threadIdx.x - 1] : join.none());
    if (shape.out != nullptr) {
      E* to = shape.out + shape.to.starts.at(line);
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        const int64_t i = first + k, at = shape.backward ? n - 1 - i : i;
        if (i < end) {
          to[at * shape.to.stride] = convert<E>(static_cast<C>(join(before, value[k])));
        }
      }
    }
    carry = join(carry, total);
  }
  if (shape.totals != nullptr && threadIdx.x == 0) shape.totals[cell] = carry;
}

// A line a thread, for short lines and for many that lie side by side.
template <class E>
__global__ void scan_lines_kernel(const ScanShape<E> shape) {
  using A = Carried<E>;
  using C = Compute<E>;
  const int64_t line = global_thread(), n = shape.in.n;
  if (line >= shape.in.count) return;
  const ScanJoin<A> join{shape.product};
  const E* from = shape.x + shape.in.starts.at(line);
  E* to = shape.out + shape.to.starts.at(line);
  A running = join.none();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = shape.backward ? n - 1 - i : i;
    running = join(running, static_cast<A>(convert<C>(from[at * shape.in.stride])));
    to[at * shape.to.stride] = convert<E>(static_cast<C>(running));
  }
}

template <class E>
void run_blocks(const ScanShape<E>& shape, int64_t chunks) {
  const dim3 grid(static_cast<unsigned>(shape.in.count), static_cast<unsigned>(chunks));
  launch("scan", scan_blocks_kernel<E>, grid, dim3(kThreads), 0, shape);
}

template <class E>
void scan_as(ScanOp op, Direction direction, const Array& x, int dim, const Array& out) {
  using A = Carried<E>;
  ScanShape<E> shape{reinterpret_cast<const E*>(x.bytes()),
                     Lines(x, dim),
                     reinterpret_cast<E*>(out.bytes()),
                     Lines(out, dim),
                     op == ScanOp::prod,
                     direction == Direction::backward,
                     0,
                     nullptr,
                     nullptr};
  const int64_t n = shape.in.n, lines = shape.in.count;
  if (n <= kWarp || (shape.in.side_by_side() && lines >= 4 * 132 * kWarp)) {
    launch("scan", scan_lines_kernel<E>, blocks_for(lines), dim3(kThreads), 0, shape);
    return;
  }
  // Chunks of whole tiles; how many depends on the shape alone.
  const int64_t tiles = (n + kTile - 1) / kTile;
  const int64_t wanted = std::min((2 * 132 + lines - 1) / lines, (tiles + 3) / 4);
  shape.chunk = (tiles + wanted - 1) / wanted * kTile;
  const int64_t chunks = (n + shape.chunk - 1) / shape.chunk;
  if (chunks == 1) return run_blocks(shape, 1);
  const Array totals = Array::empty({lines, chunks}, kDTypeOf<A>, x.device());
  ScanShape<E> first = shape;
  first.out = nullptr;
  first.totals = reinterpret_cast<A*>(totals.bytes());
  run_blocks(first, chunks);
  const Lines of_totals(totals, 1);
  run_blocks(ScanShape<A>{first.totals, of_totals, first.totals, of_totals, shape.product, false,
                          chunks, nullptr, nullptr},
             1);
  shape.before = first.totals;
  run_blocks(shape, chunks);
}

}  // namespace

void CudaBackend::run(const call::Scan& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  if (is_floating(call.out.dtype())) {
    const Array from = call.x.to(call.out.dtype());
    dispatch_floats(call.out.dtype(), [&]<class E>(TypeTag<E>) {
      scan_as<E>(call.op, call.direction, from, call.dim, call.out);
    });
    return;
  }
  // Integers wrap: the narrow ones are the lowest bits of int64's.
  const Array sums = call.out.dtype() == kInt64
                         ? call.out
                         : Array::empty(call.out.shape(), kInt64, call.out.device());
  scan_as<int64_t>(call.op, call.direction, call.x.to(kInt64), call.dim, sums);
  if (call.out.dtype() != kInt64) run(call::Copy{sums, call.out});
}

}  // namespace hero::cuda
