// Attention as graphs of cuDNN: the operations that its attention engines recognise, forward and
// backward, in the order in which NVIDIA's own interface describes them.
#include <atomic>

#include <hero/cuda/cuda.h>
#include <hero/cuda/nn/attention_cudnn.cuh>

#if __has_include(<cudnn_graph.h>)

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <hero/cuda/libraries/cudnn_graph.cuh>
#include <hero/cuda/runtime/per_device.cuh>

namespace hero::cuda {

namespace {

using Node = CudnnGraph::Node;
using Sizes = CudnnGraph::Sizes;

std::atomic<bool> wanted = false;

Sizes sizes_of(const Array& x) { return {x.size(0), x.size(1), x.size(2), x.size(3)}; }
// A step that is never made may be any; the library gets one that fits.
Sizes strides_of(const Array& x) {
  Sizes strides;
  for (int d = 0; d < 4; ++d) strides[size_t(d)] = x.size(d) > 1 ? x.strides()[d] : x.numel();
  strides[3] = 1;
  return strides;
}
// x without rows that are repeated by a stride of 0.
Array solid(const Array& x) {
  for (int d = 0; d < 3; ++d) {
    if (x.size(d) > 1 && x.strides()[d] <= 0) return x.contiguous();
  }
  return x;
}
Sizes turned(const Sizes& x) { return {x[0], x[1], x[3], x[2]}; }
Sizes with_columns(const Sizes& x, int64_t columns) { return {x[0], x[1], x[2], columns}; }

// Halves [B, H, rows, columns], which lie as strides say.
struct Operands {
  bool is_causal;
  Array q, k, v, out;
  Array g = {}, g_q = {}, g_k = {}, g_v = {};  // of the way back
};

struct Describer {
  CudnnGraph graph;
  cudnnDataType_t half;
  Sizes all, one;  // shapes of scores, and of a number for each query

  Describer(const char* op, const Operands& in)
      : graph(op),
        half(in.q.dtype() == kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF),
        all(with_columns(sizes_of(in.q), in.k.size(2))),
        one(with_columns(all, 1)) {}

  Node rows(const Array& x) { return graph.given(sizes_of(x), strides_of(x), half); }
  Node columns(const Array& x) {
    return graph.given(turned(sizes_of(x)), turned(strides_of(x)), half);
  }
  Node sums() { return graph.given(one, {one[1] * one[2], one[2], 1, 1}, CUDNN_DATA_FLOAT); }
  Node apply(cudnnPointwiseMode_t mode, std::initializer_list<Node> in, const Node& out) {
    return graph.pointwise({mode}, in, out);
  }
  Node apply(cudnnPointwiseMode_t mode, std::initializer_list<Node> in) {
    return apply(mode, in, graph.hidden(in.begin()->shape));
  }

  Node masked(const Node& scores) {
    const Node lowest = graph.value();
    const auto index = [&](int64_t axis) {
      return graph.pointwise({CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis}, {scores},
                             graph.hidden(all, CUDNN_DATA_INT32));
    };
    const Node row = index(2), column = index(3);
    const Node seen = graph.pointwise({CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN}, {row, column},
                                      graph.hidden(all, CUDNN_DATA_BOOLEAN));
    return apply(CUDNN_POINTWISE_BINARY_SELECT, {scores, lowest, seen});
  }
  // The transpose of x, of halves.
  Node across(const Node& x) {
    const Sizes shape = turned(x.shape);
    const int64_t matrix = shape[2] * shape[3];
    return graph.reshape(x, graph.hidden(shape, {shape[1] * matrix, matrix, 1, shape[2]}, half));
  }
};

// scores = scale q k^T; out = softmax v.
CudnnGraph forward_graph(const Operands& in) {
  Describer d("attention", in);
  const Node q = d.rows(in.q), k = d.columns(in.k), v = d.rows(in.v), out = d.rows(in.out);
  const Node log_sum = d.sums(), scale = d.graph.value();
  Node scores = d.graph.matmul(q, k, d.graph.hidden(d.all));
  scores = d.apply(CUDNN_POINTWISE_MUL, {scores, scale});
  if (in.is_causal) scores = d.masked(scores);
  const Node most = d.graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, d.graph.hidden(d.one));
  const Node power = d.apply(CUDNN_POINTWISE_EXP, {d.apply(CUDNN_POINTWISE_SUB, {scores, most})});
  const Node sum = d.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, power, d.graph.hidden(d.one));
  d.apply(CUDNN_POINTWISE_ADD, {most, d.apply(CUDNN_POINTWISE_LOG, {sum})}, log_sum);
  const Node p = d.apply(CUDNN_POINTWISE_DIV, {power, sum}, d.graph.hidden(d.all, d.half));
  d.graph.matmul(p, v, out);
  return std::move(d.graph);
}

// With p = exp(scores - log_sum) and along = sum(g out), a number for each query:
// g_v = p^T g, g_scores = scale p (g v^T - along), g_k = g_scores^T q, g_q = g_scores k.
CudnnGraph backward_graph(const Operands& in) {
  Describer d("attention_backward", in);
  const Node q = d.rows(in.q), k = d.columns(in.k), v = d.columns(in.v), out = d.rows(in.out);
  const Node log_sum = d.sums(), g = d.rows(in.g), along = d.sums();
  const Node g_q = d.rows(in.g_q), g_k = d.rows(in.g_k), g_v = d.rows(in.g_v);
  const Node scale = d.graph.value(), unit = d.graph.value();
  const Node products = d.apply(CUDNN_POINTWISE_MUL, {g, out});
  d.apply(CUDNN_POINTWISE_MUL,
          {d.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, d.graph.hidden(d.one)), unit}, along);
  Node scores = d.graph.matmul(q, k, d.graph.hidden(d.all));
  scores = d.apply(CUDNN_POINTWISE_MUL, {scores, scale});
  scores = d.apply(CUDNN_POINTWISE_SUB, {scores, log_sum});
  if (in.is_causal) scores = d.masked(scores);
  const Node p = d.apply(CUDNN_POINTWISE_EXP, {scores});
  // a sum over queries, and over the heads that share a key
  const auto into_keys = [&](const Node& weights, const Node& x, const Node& sum) {
    const Node w = d.across(weights);
    if (sum.shape[1] == x.shape[1]) return d.graph.matmul(w, x, sum);
    const Sizes every = {x.shape[0], x.shape[1], w.shape[2], x.shape[3]};
    return d.graph.reduce(CUDNN_REDUCE_TENSOR_ADD,
                          d.graph.matmul(w, x, d.graph.hidden(every, d.half)), sum);
  };
  into_keys(p, g, g_v);
  Node slope = d.graph.matmul(g, v, d.graph.hidden(d.all));
  slope = d.apply(CUDNN_POINTWISE_SUB, {slope, along});
  slope = d.apply(CUDNN_POINTWISE_MUL, {slope, p});
  slope = d.apply(CUDNN_POINTWISE_MUL, {slope, scale});
  into_keys(slope, q, g_k);
  const Node keys = d.graph.reshape(k, d.graph.hidden(turned(k.shape), strides_of(in.k), d.half));
  d.graph.matmul(slope, keys, g_q);
  return std::move(d.graph);
}

// A handle of the library and the plans made for it, of one device.
class AttentionPlans {
 public:
  explicit AttentionPlans(const char* op) { check_cudnn(cudnn().Create(&handle_), op); }

  void run(const char* op, const Operands& in, std::span<void* const> addresses) {
    const bool backward = in.g.defined();
    std::unique_ptr<CudnnPlan>& plan = plans_[key(in)];
    if (!plan) plan = CudnnPlan::make(backward ? backward_graph(in) : forward_graph(in), handle_);
    check(plan != nullptr, op, ": cuDNN has no engine for ", in.q.dtype(), " q ", in.q.shape(),
          ", k ", in.k.shape(), "; set_attention_library(AttentionLibrary::own) computes it");
    check_cudnn(cudnn().SetStream(handle_, current_stream()), op);
    plan->run(op, handle_, addresses);
    if (synchronous() && !capturing()) check_cuda(cudaStreamSynchronize(current_stream()), op);
  }

 private:
  // All that a graph is made of.
  static std::vector<int64_t> key(const Operands& in) {
    std::vector<int64_t> key{static_cast<int64_t>(in.q.dtype()), in.is_causal, in.k.size(1),
                             in.k.size(2)};
    const Sizes shape = sizes_of(in.q);
    key.insert(key.end(), shape.begin(), shape.end());
    for (const Array* x : {&in.q, &in.k, &in.v, &in.out, &in.g, &in.g_q, &in.g_k, &in.g_v}) {
      if (!x->defined()) continue;
      const Sizes strides = strides_of(*x);
      key.insert(key.end(), strides.begin(), strides.end());
    }
    return key;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<std::vector<int64_t>, std::unique_ptr<CudnnPlan>> plans_;
};

// [note: cuDNN's handles are a thread's] A handle serves one thread at a time, and plans are made
// for a handle. So a thread takes both from the device's stock and gives them back at its end:
// threads that share a GPU wait for none of the others, also where one makes plans, which takes
// long.
class Stock {
 public:
  explicit Stock(const char*) {}
  std::unique_ptr<AttentionPlans> take(const char* op) {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<AttentionPlans>(op);
    std::unique_ptr<AttentionPlans> plans = std::move(idle_.back());
    idle_.pop_back();
    return plans;
  }
  void give(std::unique_ptr<AttentionPlans> plans) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(plans));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<AttentionPlans>> idle_;
};

AttentionPlans& plans_of_thread(const char* op) {
  struct Mine {
    std::map<Stock*, std::unique_ptr<AttentionPlans>> taken;
    ~Mine() {
      for (auto& [stock, plans] : taken) stock->give(std::move(plans));
    }
  };
  thread_local Mine mine;
  Stock& stock = of_current_device<Stock>(op);
  std::unique_ptr<AttentionPlans>& plans = mine.taken[&stock];
  if (!plans) plans = stock.take(op);
  return *plans;
}

std::vector<void*> addresses_of(std::initializer_list<Array> arrays) {
  std::vector<void*> addresses;
  for (const Array& x : arrays) addresses.push_back(x.bytes());
  return addresses;
}

float lowest_score = std::numeric_limits<float>::lowest(), unit = 1.0f;

}  // namespace

void set_attention_library(AttentionLibrary library) {
  if (library == AttentionLibrary::cudnn) cudnn();
  wanted = library == AttentionLibrary::cudnn;
}
AttentionLibrary attention_library() {
  return wanted ? AttentionLibrary::cudnn : AttentionLibrary::own;
}

bool wants_cudnn(const AttentionScores& scores, const Array& k, const Array& v) {
  const bool from_first = !scores.is_causal || scores.first_query == 0;
  return wanted && from_first && scores.mask == nullptr && scores.bias == nullptr &&
         k.size(3) == v.size(3);
}

void cudnn_attention(const AttentionScores& scores, const Array& q, const Array& k, const Array& v,
                     const Array& out, const Array& log_sum) {
  const Operands in{
      .is_causal = scores.is_causal, .q = solid(q), .k = solid(k), .v = solid(v), .out = out};
  auto scale = static_cast<float>(scores.scale);
  std::vector<void*> addresses = addresses_of({in.q, in.k, in.v, out, log_sum});
  addresses.push_back(&scale);
  if (in.is_causal) addresses.push_back(&lowest_score);
  plans_of_thread("attention").run("attention", in, addresses);
}

void cudnn_attention_backward(const AttentionScores& scores, const Array& g, const Array& q,
                              const Array& k, const Array& v, const Array& out,
                              const Array& log_sum, const Array& g_q, const Array& g_k,
                              const Array& g_v) {
  constexpr auto kOp = "attention_backward";
  const Operands in{.is_causal = scores.is_causal,
                    .q = solid(q),
                    .k = solid(k),
                    .v = solid(v),
                    .out = solid(out),
                    .g = solid(g),
                    .g_q = g_q,
                    .g_k = g_k,
                    .g_v = g_v};
  auto scale = static_cast<float>(scores.scale);
  const Array along = log_sum.empty_like();
  std::vector<void*> addresses =
      addresses_of({in.q, in.k, in.v, in.out, log_sum, in.g, along, g_q, g_k, g_v});
  addresses.push_back(&scale);
  addresses.push_back(&unit);
  if (in.is_causal) addresses.push_back(&lowest_score);
  plans_of_thread(kOp).run(kOp, in, addresses);
}

CudnnEngines cudnn_engines(const std::string& device_json, bool is_causal, const Array& q,
                           const Array& k, const Array& v) {
  const Operands in{.is_causal = is_causal,
                    .q = q,
                    .k = k,
                    .v = v,
                    .out = q,
                    .g = q,
                    .g_q = q,
                    .g_k = k,
                    .g_v = v};
  return {static_cast<int64_t>(forward_graph(in).engines(device_json).size()),
          static_cast<int64_t>(backward_graph(in).engines(device_json).size())};
}

}  // namespace hero::cuda

#else  // a build without cuDNN

namespace hero::cuda {

namespace {
[[noreturn]] void none() {
  fail(
      "attention: this build has no cuDNN; install its headers and configure anew, or ask for "
      "AttentionLibrary::own");
}
}  // namespace

void set_attention_library(AttentionLibrary library) {
  if (library == AttentionLibrary::cudnn) none();
}
AttentionLibrary attention_library() { return AttentionLibrary::own; }
bool wants_cudnn(const AttentionScores&, const Array&, const Array&) { return false; }
void cudnn_attention(const AttentionScores&, const Array&, const Array&, const Array&, const Array&,
                     const Array&) {
  none();
}
void cudnn_attention_backward(const AttentionScores&, const Array&, const Array&, const Array&,
                              const Array&, const Array&, const Array&, const Array&, const Array&,
                              const Array&) {
  none();
}
CudnnEngines cudnn_engines(const std::string&, bool, const Array&, const Array&, const Array&) {
  none();
}

}  // namespace hero::cuda

#endif
