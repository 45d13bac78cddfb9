#pragma once
// Graphs of operations of which cuDNN makes kernels. [note: cuDNN's graphs]
// The program describes tensors and operations, the library proposes engines that can run the whole
// graph, and the first engine that can be set up becomes a plan. Describing and proposing need no
// GPU.
#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/cuda/libraries/cudnn.cuh>

namespace hero::cuda {

/// One of the library's descriptors.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const char* op, cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t raw() const { return raw_.get(); }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::span<const T> values) {
    check_cudnn(cudnn().BackendSetAttribute(raw(), name, type, static_cast<int64_t>(values.size()),
                                            values.data()),
                op_);
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw());
  }
  /// Ends the description; false if the library does not support it.
  bool try_finish();
  void finish();
  int64_t number(cudnnBackendAttributeName_t name) const;

 private:
  struct Destroy {
    void operator()(void* raw) const { cudnn().BackendDestroyDescriptor(raw); }
  };
  const char* op_;
  std::unique_ptr<void, Destroy> raw_;
};

/// A graph that is being described, one operation after the other. Tensors have four dimensions.
class CudnnGraph {
 public:
  using Sizes = std::array<int64_t, 4>;
  struct Node {
    int64_t id;  ///< from 1
    Sizes shape;
  };
  struct Pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    int64_t axis = -1;
  };

  explicit CudnnGraph(const char* op) : op_(op) {}
  const char* op() const { return op_; }
  /// A tensor in the caller's memory, read or written, at a multiple of 16 bytes.
  Node given(const Sizes& shape, const Sizes& strides, cudnnDataType_t type);
  /// A float32 that the caller passes.
  Node value();
  /// An intermediate tensor, row-major unless strides are given.
  Node hidden(const Sizes& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Node hidden(const Sizes& shape, const Sizes& strides, cudnnDataType_t type);

  /// Each returns `out`. A batch or head of b, or of a sum, may serve several neighbouring ones of
  /// a.
  Node matmul(const Node& a, const Node& b, const Node& out);
  Node reduce(cudnnReduceTensorOp_t kind, const Node& x, const Node& out);
  Node reshape(const Node& x, const Node& out);
  Node pointwise(const Pointwise& what, std::initializer_list<Node> in, const Node& out);

  /// The engines that the library proposes for the handle's GPU, or for one that a text in JSON
  /// describes, the one that it expects to be fastest first. Nothing may be added to the graph
  /// afterwards.
  std::vector<CudnnDescriptor> engines(cudnnHandle_t handle);
  std::vector<CudnnDescriptor> engines(const std::string& device_json);
  /// The caller's tensors and values, in the order in which they were described.
  std::span<const int64_t> given() const { return given_; }

 private:
  enum class TensorKind { given, value, hidden };
  Node add(const Sizes& shape, const Sizes& strides, cudnnDataType_t type, TensorKind kind);
  const CudnnDescriptor& at(const Node& node) const { return tensors_[size_t(node.id - 1)]; }
  CudnnDescriptor& detail(cudnnBackendDescriptorType_t type) {
    return details_.emplace_back(op_, type);
  }
  CudnnDescriptor& graph();
  std::vector<CudnnDescriptor> proposals(CudnnDescriptor& question);

  const char* op_;
  std::vector<CudnnDescriptor> tensors_, details_, operations_;
  std::vector<int64_t> given_;
};

/// A graph that can run, for any memory.
class CudnnPlan {
 public:
  /// Null if the library has no engine for the graph.
  static std::unique_ptr<CudnnPlan> make(CudnnGraph graph, cudnnHandle_t handle);
  /// Runs it on the stream of `handle`. Addresses are in the order in which tensors were described;
  /// those of values are on the host.
  void run(const char* op, cudnnHandle_t handle, std::span<void* const> addresses) const;

 private:
  CudnnPlan(CudnnGraph graph, CudnnDescriptor engine, CudnnDescriptor plan)
      : graph_(std::move(graph)), engine_(std::move(engine)), plan_(std::move(plan)) {}
  CudnnGraph graph_;  // the source of the other members
  CudnnDescriptor engine_, plan_;
};

}  // namespace hero::cuda
