// What ranks that share a device ask of it: points of streams, copies, sums in rank order.
#include <deque>
#include <mutex>

#include <hero/cuda/runtime/exchange.cuh>
#include <hero/cuda/runtime/launch.cuh>

namespace hero::cuda {

namespace {

using namespace core::combining;
using core::Combine;

// A kernel's parameters are at most 4 KiB.
constexpr int kMaxInputs = 480;

template <class T>
struct Inputs {
  const T* at[kMaxInputs];
  int count;
};

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

// One thread adds up N neighbouring elements, in registers, all of which it has read before it
// writes: the output may be one of the inputs. Four inputs are under way at a time.
template <class T, int N, class Acc, class Op, class Finish>
__global__ void combine_kernel(const __grid_constant__ Inputs<T> inputs, T* out, int64_t packs,
                               Op op, Finish finish) {
  constexpr int kAtOnce = 4;
  using P = Pack<T, N>;
  for (int64_t i = global_thread(); i < packs; i += grid_threads()) {
    const P first = reinterpret_cast<const P*>(inputs.at[0])[i];
    Acc sum[N];
    for (int e = 0; e < N; ++e) sum[e] = static_cast<Acc>(first.value[e]);
    for (int k = 1; k < inputs.count; k += kAtOnce) {
      P next[kAtOnce];
      for (int j = 0; j < kAtOnce; ++j) {
        if (k + j < inputs.count) next[j] = reinterpret_cast<const P*>(inputs.at[k + j])[i];
      }
      for (int j = 0; j < kAtOnce; ++j) {
        if (k + j >= inputs.count) break;
        for (int e = 0; e < N; ++e) sum[e] = op(sum[e], static_cast<Acc>(next[j].value[e]));
      }
    }
    P result;
    for (int e = 0; e < N; ++e) result.value[e] = T(finish(sum[e]));
    reinterpret_cast<P*>(out)[i] = result;
  }
}

bool aligned(const void* place) { return reinterpret_cast<uintptr_t>(place) % 16 == 0; }

template <int N, class Acc, class T, class Op, class Finish>
void run(const Inputs<T>& inputs, T* out, int64_t packs, Op op, Finish finish) {
  if (packs == 0) return;
  launch("ordered_reduce", combine_kernel<T, N, Acc, Op, Finish>, blocks_for(packs), dim3(kThreads),
         0, inputs, out, packs, op, finish);
}

template <class Acc, class T, class Op, class Finish = Keep>
void combine_all(Inputs<T> inputs, T* out, int64_t count, Op op, Finish finish = {}) {
  constexpr int N = kPack<T>;
  bool whole = aligned(out);
  for (int k = 0; k < inputs.count; ++k) whole = whole && aligned(inputs.at[k]);
  const int64_t packs = whole ? count / N : 0, rest = count - packs * N;
  run<N, Acc>(inputs, out, packs, op, finish);
  for (int k = 0; k < inputs.count; ++k) inputs.at[k] += packs * N;
  run<1, Acc>(inputs, out + packs * N, rest, op, finish);
}

template <class T>
void combine_as(Combine op, const Inputs<T>& inputs, T* out, int64_t count) {
  using Sum = typename SumType<T>::type;
  using Compared = ComparedType<T>;
  switch (op) {
    case Combine::sum:
      return combine_all<Sum>(inputs, out, count, Add{});
    case Combine::product:
      return combine_all<Sum>(inputs, out, count, Multiply{});
    case Combine::min:
      return combine_all<Compared>(inputs, out, count, Smaller{});
    case Combine::max:
      return combine_all<Compared>(inputs, out, count, Larger{});
    case Combine::mean:
      if constexpr (std::is_floating_point_v<Sum>) {
        combine_all<Sum>(inputs, out, count, Add{}, Divide<Sum>{static_cast<Sum>(inputs.count)});
      }
  }
}

template <class T>
Inputs<T> inputs_of(std::span<const std::byte* const> places) {
  Inputs<T> inputs = {};
  for (const std::byte* place : places) {
    inputs.at[inputs.count++] = reinterpret_cast<const T*>(place);
  }
  return inputs;
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
  void combine(Combine op, DType dtype, std::span<const std::byte* const> inputs, std::byte* output,
               int64_t count) override {
    if (count == 0) return;
    check(inputs.size() <= kMaxInputs, "ordered_reduce: at most ", kMaxInputs,
          " contributions on cuda, not ", inputs.size(), "; use fewer ranks");
    const DeviceGuard guard(index_);
    if (dtype == kBool) {  // bytes of 0 and 1
      const bool any = op == Combine::sum || op == Combine::max;
      return combine_as(any ? Combine::max : Combine::min, inputs_of<uint8_t>(inputs),
                        reinterpret_cast<uint8_t*>(output), count);
    }
    dispatch(dtype, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_same_v<T, bool>) {
        combine_as(op, inputs_of<T>(inputs), reinterpret_cast<T*>(output), count);
      }
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
