// One step of recurrent cells, after the products: one thread for every element of h.
#include <hero/core/kernels/recurrent_cells.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/nn/window.cuh>

namespace hero::cuda {

namespace {

namespace k = core::kernels;

// Where one element lies: in a row of blocks of `width`.
struct BlockElement {
  int64_t row;
  uint32_t column, width;
  __device__ BlockElement(uint32_t i, uint32_t first, const Divider& hidden)
      : row(static_cast<int64_t>(first) + hidden(i)), width(hidden.divisor) {
    column = i - hidden(i) * width;
  }
  /// In block `block` of `blocks`.
  __device__ int64_t at(int block = 0, int blocks = 1) const {
    return (row * blocks + block) * width + column;
  }
};

template <class T>
__global__ void lstm_kernel(T* gates, const T* of_h, const T* c_before, T* h, T* c, Divider hidden,
                            uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t e = static_cast<uint32_t>(global_thread()); e < count;
       e += static_cast<uint32_t>(grid_threads())) {
    const BlockElement place(e, first, hidden);
    const auto sum = [&](int block) {
      return convert<C>(gates[place.at(block, 4)]) + convert<C>(of_h[place.at(block, 4)]);
    };
    const k::LstmGates<C> gate{math::sigmoid(sum(0)), math::sigmoid(sum(1)), math::tanh(sum(2)),
                               math::sigmoid(sum(3))};
    const C cell = k::lstm_cell(gate, convert<C>(c_before[place.at()]));
    gates[place.at(0, 4)] = convert<T>(gate.i);
    gates[place.at(1, 4)] = convert<T>(gate.f);
    gates[place.at(2, 4)] = convert<T>(gate.g);
    gates[place.at(3, 4)] = convert<T>(gate.o);
    c[place.at()] = convert<T>(cell);
    h[place.at()] = convert<T>(k::lstm_output(gate.o, cell));
  }
}

// g_output may be null.
template <class T>
__global__ void lstm_backward_kernel(const T* gates, const T* c_before, const T* c, const T* g_h,
                                     const T* g_output, T* g_c, T* g_sums, Divider hidden,
                                     uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t e = static_cast<uint32_t>(global_thread()); e < count;
       e += static_cast<uint32_t>(grid_threads())) {
    const BlockElement place(e, first, hidden);
    const auto gate = [&](int block) { return convert<C>(gates[place.at(block, 4)]); };
    const auto one = [&](const T* from) { return convert<C>(from[place.at()]); };
    const C whole = g_output != nullptr ? one(g_h) + one(g_output) : one(g_h);
    const auto back = k::lstm_gradients<C>({gate(0), gate(1), gate(2), gate(3)}, one(c_before),
                                           one(c), whole, one(g_c));
    g_sums[place.at(0, 4)] = convert<T>(back.sums.i);
    g_sums[place.at(1, 4)] = convert<T>(back.sums.f);
    g_sums[place.at(2, 4)] = convert<T>(back.sums.g);
    g_sums[place.at(3, 4)] = convert<T>(back.sums.o);
    g_c[place.at()] = convert<T>(back.c_before);
  }
}

template <class T>
__global__ void gru_kernel(T* gates, const T* of_h, const T* h_before, T* h, Divider hidden,
                           uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t e = static_cast<uint32_t>(global_thread()); e < count;
       e += static_cast<uint32_t>(grid_threads())) {
    const BlockElement place(e, first, hidden);
    const auto of_x = [&](int block) { return convert<C>(gates[place.at(block, 3)]); };
    const auto over_h = [&](int block) { return convert<C>(of_h[place.at(block, 3)]); };
    const C r = math::sigmoid(of_x(0) + over_h(0)), z = math::sigmoid(of_x(1) + over_h(1));
    const C n = math::tanh(of_x(2) + r * over_h(2));
    gates[place.at(0, 3)] = convert<T>(r);
    gates[place.at(1, 3)] = convert<T>(z);
    gates[place.at(2, 3)] = convert<T>(n);
    h[place.at()] = convert<T>(k::gru_output(z, n, convert<C>(h_before[place.at()])));
  }
}

template <class T>
__global__ void gru_backward_kernel(const T* gates, const T* of_h, const T* h_before, const T* g_h,
                                    const T* g_output, T* g_direct, T* g_of_x, T* g_of_h,
                                    Divider hidden, uint32_t first, uint32_t count) {
  using C = ComputeOf<T>;
  for (uint32_t e = static_cast<uint32_t>(global_thread()); e < count;
       e += static_cast<uint32_t>(grid_threads())) {
    const BlockElement place(e, first, hidden);
    const auto gate = [&](int block) { return convert<C>(gates[place.at(block, 3)]); };
    const auto one = [&](const T* from) { return convert<C>(from[place.at()]); };
    C whole = one(g_h) + one(g_direct);
    if (g_output != nullptr) whole += one(g_output);
    const auto back = k::gru_gradients<C>({gate(0), gate(1), gate(2)},
                                          convert<C>(of_h[place.at(2, 3)]), one(h_before), whole);
    g_of_x[place.at(0, 3)] = g_of_h[place.at(0, 3)] = convert<T>(back.r);
    g_of_x[place.at(1, 3)] = g_of_h[place.at(1, 3)] = convert<T>(back.z);
    g_of_x[place.at(2, 3)] = convert<T>(back.n_of_x);
    g_of_h[place.at(2, 3)] = convert<T>(back.n_of_h);
    g_direct[place.at()] = convert<T>(back.h_before);
  }
}

// Calls body(TypeTag, hidden, first row, elements) for runs of the rows of h.
template <class Body>
void each_run_of_rows(const char* op, const Array& h, const Body& body) {
  const Divider hidden(static_cast<uint32_t>(h.size(1)));
  each_run(op, h.size(0), h.size(1), [&](uint32_t first, uint32_t count) {
    if (h.dtype() == kFloat64) return body(TypeTag<double>{}, hidden, first, count);
    if (h.dtype() == kBFloat16) return body(TypeTag<BFloat16>{}, hidden, first, count);
    if (h.dtype() == kFloat16) return body(TypeTag<Float16>{}, hidden, first, count);
    body(TypeTag<float>{}, hidden, first, count);
  });
}

template <class T>
T* in(const Array& x) {
  return reinterpret_cast<T*>(x.bytes());
}

}  // namespace

void CudaBackend::run(const call::CellStep& s) {
  if (s.h.numel() == 0) return;
  const DeviceGuard guard(index_);
  const char* op = s.kind == CellKind::lstm ? "lstm" : "gru";
  each_run_of_rows(op, s.h, [&]<class T>(TypeTag<T>, Divider hidden, uint32_t first, uint32_t n) {
    if (s.kind == CellKind::lstm) {
      launch(op, lstm_kernel<T>, loop_blocks(n), dim3(kThreads), 0, in<T>(s.of_x), in<T>(s.of_h),
             in<T>(s.c_before), in<T>(s.h), in<T>(s.c), hidden, first, n);
    } else {
      launch(op, gru_kernel<T>, loop_blocks(n), dim3(kThreads), 0, in<T>(s.of_x), in<T>(s.of_h),
             in<T>(s.h_before), in<T>(s.h), hidden, first, n);
    }
  });
}

void CudaBackend::run(const call::CellStepBack& s) {
  if (s.g_h.numel() == 0) return;
  const DeviceGuard guard(index_);
  const char* op = s.kind == CellKind::lstm ? "lstm_backward" : "gru_backward";
  const Array& output = s.g_output;
  each_run_of_rows(op, s.g_h, [&]<class T>(TypeTag<T>, Divider hidden, uint32_t first, uint32_t n) {
    if (s.kind == CellKind::lstm) {
      launch(op, lstm_backward_kernel<T>, loop_blocks(n), dim3(kThreads), 0, in<T>(s.gates),
             in<T>(s.c_before), in<T>(s.c), in<T>(s.g_h),
             output.defined() ? in<T>(output) : nullptr, in<T>(s.g_c), in<T>(s.g_of_x), hidden,
             first, n);
    } else {
      launch(op, gru_backward_kernel<T>, loop_blocks(n), dim3(kThreads), 0, in<T>(s.gates),
             in<T>(s.of_h), in<T>(s.h_before), in<T>(s.g_h),
             output.defined() ? in<T>(output) : nullptr, in<T>(s.g_c), in<T>(s.g_of_x),
             in<T>(s.g_of_h), hidden, first, n);
    }
  });
}

}  // namespace hero::cuda
