// The exchange of ranks that share a device: events in streams, copies, sums in the order of ranks.
#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>

#include <hero/core/array.h>
#include <hero/cuda/runtime/before_wait.cuh>
#include <hero/cuda/runtime/exchange.cuh>
#include <hero/cuda/runtime/launch.cuh>
#include <hero/cuda/runtime/streams.cuh>

namespace hero::cuda {

namespace {

using namespace core::combining;
using core::Combine;

// A kernel's parameters are at most 4 KiB.
constexpr int kMaxInputs = 480;
constexpr int kTreeLevels = 7;  // 4 * 2^7 inputs
// Of more inputs these are added up first, each time as many. Their sums are those of aligned
// subtrees, so that the tree over them is the tree over all.
constexpr int kSubtree = 256;
constexpr size_t kMostInputs = size_t{kMaxInputs} * kSubtree;

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
// writes: the output may be one of the inputs. Four inputs are under way at a time. They are added
// to what `begun` holds, if it is not null.
template <class T, int N, class Acc, class Begun, class Out, class Op, class Finish>
__global__ void combine_kernel(const __grid_constant__ Inputs<T> inputs, const Begun* begun,
                               Out* out, int64_t packs, Op op, Finish finish) {
  constexpr int kAtOnce = 4;
  for (int64_t i = global_thread(); i < packs; i += grid_threads()) {
    Sums<Acc, N> sum = begun != nullptr ? load<Acc, N>(begun, i) : load<Acc, N>(inputs.at[0], i);
    for (int k = begun != nullptr ? 0 : 1; k < inputs.count; k += kAtOnce) {
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

// Memory for sums that are not complete, in the order of this thread's stream.
template <class T>
class Partial {
 public:
  Partial(int64_t count, int device)
      : bytes_(core::Array::empty({count * static_cast<int64_t>(sizeof(T))}, kUInt8,
                                  {DeviceType::cuda, static_cast<int8_t>(device)})) {}
  T* at() const { return reinterpret_cast<T*>(bytes_.bytes()); }

 private:
  core::Array bytes_;
};

// A reduction of inputs of T, whose combinations are computed in Acc.
template <class T, class Acc>
struct Combiner {
  // What sums that are not complete are kept in. Of integers their own dtype loses nothing.
  using Kept = std::conditional_t<std::is_floating_point_v<Acc>, Acc, T>;

  const core::Fold& fold;
  std::span<const std::byte* const> places;
  std::byte* output;
  int64_t count;
  int device;

  template <class Op, class Finish = Keep>
  void run(Op op, Finish finish = {}) const {
    if (fold.result == fold.dtype) return into(reinterpret_cast<T*>(output), op, finish);
    if constexpr (core::kIsHalf<T>) into(reinterpret_cast<float*>(output), op, finish);
    if constexpr (std::is_same_v<T, float> && kRounds<Op>) {
      if (fold.result == kFloat16) return into(reinterpret_cast<Float16*>(output), op, finish);
      into(reinterpret_cast<BFloat16*>(output), op, finish);
    }
  }
  void mean() const {
    if constexpr (std::is_floating_point_v<Acc>) {
      const double divisor = core::divisor_of(fold, places.size());
      run(Add{}, Divide<Acc>{static_cast<Acc>(divisor)});
    }
  }

 private:
  template <class Out, class Op, class Finish>
  void into(Out* out, Op op, Finish finish) const {
    if (places.size() <= kMaxInputs) return pass(inputs_of<T>(places), nullptr, out, op, finish);
    if (std::is_floating_point_v<Acc> && kRounds<Op> && !fold.tree) {
      const Partial<Kept> sums(count, device);
      const Kept* begun = nullptr;
      size_t first = 0;
      for (; places.size() - first > kMaxInputs; first += kMaxInputs) {
        pass(inputs_of<T>(places.subspan(first, kMaxInputs)), begun, sums.at(), op, Keep{});
        begun = sums.at();
      }
      return pass(inputs_of<T>(places.subspan(first)), begun, out, op, finish);
    }
    Inputs<Kept> subtrees = {};
    const size_t parts = (places.size() + kSubtree - 1) / kSubtree;
    const Partial<Kept> sums(static_cast<int64_t>(parts) * count, device);
    for (size_t i = 0; i < parts; ++i) {
      const size_t first = i * kSubtree, most = places.size() - first;
      Kept* const to = sums.at() + static_cast<int64_t>(i) * count;
      pass(inputs_of<T>(places.subspan(first, std::min<size_t>(kSubtree, most))), nullptr, to, op,
           Keep{});
      subtrees.at[subtrees.count++] = to;
    }
    pass(subtrees, nullptr, out, op, finish);
  }
  // One launch, or two where the elements at the end make no whole pack.
  template <class In, class Out, class Op, class Finish>
  void pass(const Inputs<In>& inputs, const Kept* begun, Out* out, Op op, Finish finish) const {
    constexpr int N = 16 / static_cast<int>(std::max(sizeof(In), sizeof(Out)));
    bool whole = aligned(out) && aligned(begun);
    for (int k = 0; k < inputs.count; ++k) whole = whole && aligned(inputs.at[k]);
    const int64_t packs = whole ? count / N : 0, rest = count - packs * N;
    packed<N>(inputs, begun, out, packs, op, finish);
    Inputs<In> behind = inputs;
    for (int k = 0; k < behind.count; ++k) behind.at[k] += packs * N;
    packed<1>(behind, begun == nullptr ? nullptr : begun + packs * N, out + packs * N, rest, op,
              finish);
  }
  // What is exact, and up to three inputs, has the same bits in both orders.
  template <int N, class In, class Out, class Op, class Finish>
  void packed(const Inputs<In>& from, const Kept* begun, Out* out, int64_t packs, Op op,
              Finish finish) const {
    if (packs == 0) return;
    if constexpr (std::is_floating_point_v<Acc> && kRounds<Op>) {
      if (fold.tree && from.count > 3) {
        return launch("ordered_reduce", combine_tree_kernel<In, N, Acc, Out, Op, Finish>,
                      blocks_for(packs), dim3(kThreads), 0, from, out, packs, op, finish);
      }
    }
    launch("ordered_reduce", combine_kernel<In, N, Acc, Kept, Out, Op, Finish>, blocks_for(packs),
           dim3(kThreads), 0, from, begun, out, packs, op, finish);
  }
};

template <class T>
void combine_as(const core::Fold& fold, std::span<const std::byte* const> places, std::byte* output,
                int64_t count, int device) {
  const Combiner<T, SumType<T>> added{fold, places, output, count, device};
  const Combiner<T, ComputeOf<T>> compared{fold, places, output, count, device};
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
class CudaEvent final : public core::DeviceEvent, public std::enable_shared_from_this<CudaEvent> {
 public:
  explicit CudaEvent(int index) : index_(index) {
    const DeviceGuard guard(index_);
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    const cudaError_t status = cudaEventRecord(event_, current_stream());
    if (status != cudaSuccess) cudaEventDestroy(event_);
    check_cuda(status, "event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void join() override {
    const DeviceGuard guard(index_);
    check_cuda(cudaStreamWaitEvent(current_stream(), event_, 0), "event");
  }
  void join_before_use() override {
    if (known_stream(index_)) return join();
    join_with_first_stream(index_, shared_from_this());
  }
  bool reached() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check_cuda(status, "event");
    return true;
  }
  void wait() override {
    before_wait(index_);
    check_cuda(cudaEventSynchronize(event_), "event");
    after_wait(index_);
  }

 private:
  int index_;
  cudaEvent_t event_ = nullptr;
};

class CudaExchange final : public core::Exchange {
 public:
  explicit CudaExchange(int index) : index_(index) {}
  std::shared_ptr<core::DeviceEvent> record_event() override {
    return std::make_shared<CudaEvent>(index_);
  }
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
    check(inputs.size() <= kMostInputs, "ordered_reduce: at most ", kMostInputs,
          " contributions on cuda, not ", inputs.size(), "; use fewer ranks");
    const DeviceGuard guard(index_);
    if (fold.dtype == kBool) {  // bytes of 0 and 1
      const bool any = fold.op == Combine::sum || fold.op == Combine::max;
      return combine_as<uint8_t>(
          {.op = any ? Combine::max : Combine::min, .dtype = kUInt8, .result = kUInt8}, inputs,
          output, count, index_);
    }
    dispatch(fold.dtype, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_same_v<T, bool>) combine_as<T>(fold, inputs, output, count, index_);
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
