// What ranks that share a device ask of it: points of streams, copies, sums in rank order.
#include <deque>
#include <mutex>

#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/cuda/runtime/exchange.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

using namespace core::combining;
using core::Combine;

// A kernel's parameters are at most 4 KiB.
constexpr int kMaxInputs = 480;
constexpr int kTreeLevels = 7;  // 4 * 2^7 inputs

template <class T>
struct Inputs {
  const T* at[kMaxInputs];
  int count;
};

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

// The sums of N neighbouring elements.
template <class Acc, int N>
struct Sums {
  Acc value[N];
};

template <class Acc, int N, class T>
__device__ Sums<Acc, N> load(const T* from, int64_t pack) {
  const Pack<T, N> read = reinterpret_cast<const Pack<T, N>*>(from)[pack];
  Sums<Acc, N> sums;
  for (int e = 0; e < N; ++e) sums.value[e] = static_cast<Acc>(read.value[e]);
  return sums;
}

template <class Acc, int N, class Op>
__device__ Sums<Acc, N> joined(const Sums<Acc, N>& left, const Sums<Acc, N>& right, Op op) {
  Sums<Acc, N> sums;
  for (int e = 0; e < N; ++e) sums.value[e] = op(left.value[e], right.value[e]);
  return sums;
}

template <class Acc, int N, class Out, class Finish>
__device__ void store(const Sums<Acc, N>& sums, Out* out, int64_t pack, Finish finish) {
  Pack<Out, N> result;
  for (int e = 0; e < N; ++e) result.value[e] = Out(finish(sums.value[e]));
  reinterpret_cast<Pack<Out, N>*>(out)[pack] = result;
}

// One thread adds up N neighbouring elements, in registers, all of which it has read before it
// writes: the output may be one of the inputs. Four inputs are under way at a time.
template <class T, int N, class Acc, class Out, class Op, class Finish>
__global__ void combine_kernel(const __grid_constant__ Inputs<T> inputs, Out* out, int64_t packs,
                               Op op, Finish finish) {
  constexpr int kAtOnce = 4;
  for (int64_t i = global_thread(); i < packs; i += grid_threads()) {
    Sums<Acc, N> sum = load<Acc, N>(inputs.at[0], i);
    for (int k = 1; k < inputs.count; k += kAtOnce) {
      Pack<T, N> next[kAtOnce];
      for (int j = 0; j < kAtOnce; ++j) {
        if (k + j < inputs.count)
          next[j] = reinterpret_cast<const Pack<T, N>*>(inputs.at[k + j])[i];
      }
      for (int j = 0; j < kAtOnce; ++j) {
        if (k + j >= inputs.count) break;
        for (int e = 0; e < N; ++e) {
          sum.value[e] = op(sum.value[e], static_cast<Acc>(next[j].value[e]));
        }
      }
    }
    store(sum, out, i, finish);
  }
}

// The same in the order of a tree (dist/backends/tree_reduce.h): sums of 4, 8, 16, ... inputs wait
// on their level, in registers, which is why there are so few elements and levels.
template <class T, int N, class Acc, class Out, class Op, class Finish>
__global__ void __launch_bounds__(kThreads)
    combine_tree_kernel(const __grid_constant__ Inputs<T> inputs, Out* out, int64_t packs, Op op,
                        Finish finish) {
  const int groups = (inputs.count + 3) / 4;
  for (int64_t i = global_thread(); i < packs; i += grid_threads()) {
    const auto input = [&](int k) { return load<Acc, N>(inputs.at[k], i); };
    Sums<Acc, N> level[kTreeLevels], sum;
    for (int group = 0; group < groups; ++group) {
      const int first = 4 * group, width = inputs.count - first;
      sum = input(first);
      if (width > 1) sum = joined(sum, input(first + 1), op);
      if (width > 3) {
        sum = joined(sum, joined(input(first + 2), input(first + 3), op), op);
      } else if (width > 2) {
        sum = joined(sum, input(first + 2), op);
      }
      const bool last = group + 1 == groups;
      bool carries = true;
#pragma unroll
      for (int l = 0; l < kTreeLevels; ++l) {
        if (!carries) continue;
        if ((group >> l & 1) != 0) {
          sum = joined(level[l], sum, op);
        } else if (!last) {
          level[l] = sum;
          carries = false;
        }
      }
    }
    store(sum, out, i, finish);
  }
}

bool aligned(const void* place) { return reinterpret_cast<uintptr_t>(place) % 16 == 0; }

template <class T>
Inputs<T> inputs_of(std::span<const std::byte* const> places) {
  Inputs<T> inputs = {};
  for (const std::byte* place : places) {
    inputs.at[inputs.count++] = reinterpret_cast<const T*>(place);
  }
  return inputs;
}

// A reduction of inputs of T, whose combinations are computed in Acc.
template <class T, class Acc>
struct Combiner {
  const core::Fold& fold;
  Inputs<T> inputs;
  std::byte* output;
  int64_t count;

  template <class Op, class Finish = Keep>
  void run(Op op, Finish finish = {}) const {
    if (fold.result == fold.dtype) return into(reinterpret_cast<T*>(output), op, finish);
    if constexpr (core::kIsHalf<T>) into(reinterpret_cast<float*>(output), op, finish);
  }
  void mean() const {
    if constexpr (std::is_floating_point_v<Acc>) {
      const double divisor = core::divisor_of(fold, static_cast<size_t>(inputs.count));
      run(Add{}, Divide<Acc>{static_cast<Acc>(divisor)});
    }
  }

 private:
  template <class Out, class Op, class Finish>
  void into(Out* out, Op op, Finish finish) const {
    constexpr int N = 16 / static_cast<int>(std::max(sizeof(T), sizeof(Out)));
    bool whole = aligned(out);
    for (int k = 0; k < inputs.count; ++k) whole = whole && aligned(inputs.at[k]);
    const int64_t packs = whole ? count / N : 0, rest = count - packs * N;
    packed<N>(inputs, out, packs, op, finish);
    Inputs<T> behind = inputs;
    for (int k = 0; k < behind.count; ++k) behind.at[k] += packs * N;
    packed<1>(behind, out + packs * N, rest, op, finish);
  }
  // What is exact, and up to three inputs, has the same bits in both orders.
  template <int N, class Out, class Op, class Finish>
  void packed(const Inputs<T>& from, Out* out, int64_t packs, Op op, Finish finish) const {
    if (packs == 0) return;
    const auto start = [&](auto* kernel) {
      launch("ordered_reduce", kernel, blocks_for(packs), dim3(kThreads), 0, from, out, packs, op,
             finish);
    };
    if constexpr (std::is_floating_point_v<Acc> && kRounds<Op>) {
      if (fold.tree && from.count > 3)
        return start(combine_tree_kernel<T, N, Acc, Out, Op, Finish>);
    }
    start(combine_kernel<T, N, Acc, Out, Op, Finish>);
  }
};

template <class T>
void combine_as(const core::Fold& fold, std::span<const std::byte* const> places, std::byte* output,
                int64_t count) {
  const Combiner<T, SumType<T>> added{fold, inputs_of<T>(places), output, count};
  const Combiner<T, ComputeOf<T>> compared{fold, inputs_of<T>(places), output, count};
  switch (fold.op) {
    case Combine::sum:
      return added.run(Add{});
    case Combine::product:
      return added.run(Multiply{});
    case Combine::min:
      return compared.run(Smaller{});
    case Combine::max:
      return compared.run(Larger{});
    case Combine::mean:
      return added.mean();
  }
}

// An event: recorded once, then only looked at.
class EventPoint final : public core::Point {
 public:
  explicit EventPoint(int index) : index_(index) {
    const DeviceGuard guard(index_);
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "point");
    const cudaError_t status = cudaEventRecord(event_, current_stream());
    if (status != cudaSuccess) cudaEventDestroy(event_);
    check_cuda(status, "point");
  }
  ~EventPoint() override { cudaEventDestroy(event_); }
  EventPoint(const EventPoint&) = delete;
  EventPoint& operator=(const EventPoint&) = delete;
  void join() override {
    const DeviceGuard guard(index_);
    check_cuda(cudaStreamWaitEvent(current_stream(), event_, 0), "point");
  }
  bool reached() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check_cuda(status, "point");
    return true;
  }
  void wait() override {
    before_wait(index_);
    check_cuda(cudaEventSynchronize(event_), "point");
  }

 private:
  int index_;
  cudaEvent_t event_ = nullptr;
};

class CudaExchange final : public core::Exchange {
 public:
  explicit CudaExchange(int index) : index_(index) {}
  std::shared_ptr<core::Point> point() override { return std::make_shared<EventPoint>(index_); }
  void copy(const std::byte* from, std::byte* to, int64_t bytes) override {
    if (bytes == 0) return;
    const DeviceGuard guard(index_);
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                               current_stream()),
               "exchange");
  }
  void combine(const core::Fold& fold, std::span<const std::byte* const> inputs, std::byte* output,
               int64_t count) override {
    if (count == 0) return;
    check(inputs.size() <= kMaxInputs, "ordered_reduce: at most ", kMaxInputs,
          " contributions on cuda, not ", inputs.size(), "; use fewer ranks");
    const DeviceGuard guard(index_);
    if (fold.dtype == kBool) {  // bytes of 0 and 1
      const bool any = fold.op == Combine::sum || fold.op == Combine::max;
      return combine_as<uint8_t>(
          {.op = any ? Combine::max : Combine::min, .dtype = kUInt8, .result = kUInt8}, inputs,
          output, count);
    }
    dispatch(fold.dtype, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_same_v<T, bool>) combine_as<T>(fold, inputs, output, count);
    });
  }

 private:
  const int index_;
};

}  // namespace

core::Exchange& exchange_of(int index) {
  static std::mutex mutex;
  static std::deque<CudaExchange> exchanges;  // never move
  const std::lock_guard lock(mutex);
  while (static_cast<int>(exchanges.size()) <= index) {
    exchanges.emplace_back(static_cast<int>(exchanges.size()));
  }
  return exchanges[static_cast<size_t>(index)];
}

}  // namespace hero::cuda
