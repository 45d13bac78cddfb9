#if __has_include(<cudnn_graph.h>)

#include <hero/cuda/libraries/cudnn_graph.cuh>
#include <hero/cuda/runtime/per_device.cuh>
#include <hero/cuda/runtime/times.cuh>

namespace hero::cuda {

CudnnDescriptor::CudnnDescriptor(const char* op, cudnnBackendDescriptorType_t type) : op_(op) {
  cudnnBackendDescriptor_t raw = nullptr;
  check_cudnn(cudnn().BackendCreateDescriptor(type, &raw), op);
  raw_.reset(raw);
}

bool CudnnDescriptor::try_finish() {
  const cudnnStatus_t status = cudnn().BackendFinalize(raw());
  if (is_refusal(status)) return false;
  check_cudnn(status, op_);
  return true;
}

void CudnnDescriptor::finish() { check_cudnn(cudnn().BackendFinalize(raw()), op_); }

int64_t CudnnDescriptor::number(cudnnBackendAttributeName_t name) const {
  int64_t value = 0, count = 0;
  check_cudnn(cudnn().BackendGetAttribute(raw(), name, CUDNN_TYPE_INT64, 1, &count, &value), op_);
  return value;
}

CudnnGraph::Node CudnnGraph::add(const Sizes& shape, const Sizes& strides, cudnnDataType_t type,
                                 TensorKind kind) {
  constexpr int64_t kAlignment = 16;
  const auto id = static_cast<int64_t>(tensors_.size() + 1);
  CudnnDescriptor& tensor = tensors_.emplace_back(op_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(shape));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, kind == TensorKind::hidden);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, kind == TensorKind::value);
  tensor.finish();
  if (kind != TensorKind::hidden) given_.push_back(id);
  return {id, shape};
}

CudnnGraph::Node CudnnGraph::given(const Sizes& shape, const Sizes& strides, cudnnDataType_t type) {
  return add(shape, strides, type, TensorKind::given);
}
CudnnGraph::Node CudnnGraph::value() {
  return add({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, TensorKind::value);
}
CudnnGraph::Node CudnnGraph::hidden(const Sizes& shape, cudnnDataType_t type) {
  const int64_t matrix = shape[2] * shape[3];
  return hidden(shape, {shape[1] * matrix, matrix, shape[3], 1}, type);
}
CudnnGraph::Node CudnnGraph::hidden(const Sizes& shape, const Sizes& strides,
                                    cudnnDataType_t type) {
  return add(shape, strides, type, TensorKind::hidden);
}

CudnnGraph::Node CudnnGraph::matmul(const Node& a, const Node& b, const Node& out) {
  CudnnDescriptor& kind = detail(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finish();
  CudnnDescriptor& product =
      operations_.emplace_back(op_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  product.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  product.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(out));
  product.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  product.finish();
  return out;
}

CudnnGraph::Node CudnnGraph::reduce(cudnnReduceTensorOp_t kind, const Node& x, const Node& out) {
  CudnnDescriptor& how = detail(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, kind);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finish();
  CudnnDescriptor& sum =
      operations_.emplace_back(op_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  sum.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  sum.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(out));
  sum.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  sum.finish();
  return out;
}

CudnnGraph::Node CudnnGraph::reshape(const Node& x, const Node& out) {
  CudnnDescriptor& same = operations_.emplace_back(op_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  same.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  same.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(out));
  same.finish();
  return out;
}

CudnnGraph::Node CudnnGraph::pointwise(const Pointwise& what, std::initializer_list<Node> in,
                                       const Node& out) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  CudnnDescriptor& kind = detail(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, what.mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, what.compute);
  if (what.axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, what.axis);
  kind.finish();
  CudnnDescriptor& each =
      operations_.emplace_back(op_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  each.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  const cudnnBackendAttributeName_t* input = kInputs;
  for (const Node& node : in) each.set(*input++, at(node));
  each.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(out));
  each.finish();
  return out;
}

CudnnDescriptor& CudnnGraph::graph() {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& operation : operations_) raw.push_back(operation.raw());
  CudnnDescriptor& graph = detail(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::span<const cudnnBackendDescriptor_t>(raw));
  return graph;
}

std::vector<CudnnDescriptor> CudnnGraph::engines(cudnnHandle_t handle) {
  CudnnDescriptor& whole = graph();
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  whole.finish();
  CudnnDescriptor question(op_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  question.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
  return proposals(question);
}

std::vector<CudnnDescriptor> CudnnGraph::engines(const std::string& device_json) {
  CudnnDescriptor& whole = graph();
  whole.finish();
  CudnnDescriptor device(op_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             std::span<const char>(device_json.c_str(), device_json.size() + 1));
  device.finish();
  CudnnDescriptor question(op_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  question.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
  question.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  return proposals(question);
}

std::vector<CudnnDescriptor> CudnnGraph::proposals(CudnnDescriptor& question) {
  question.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  std::vector<CudnnDescriptor> engines;
  if (!question.try_finish()) return engines;
  const auto answer = [&](int64_t wanted, cudnnBackendDescriptor_t* into) {
    int64_t count = 0;
    check_cudnn(cudnn().BackendGetAttribute(question.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, &count, into),
                op_);
    return count;
  };
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = answer(0, nullptr); i > 0; --i) {
    raw.push_back(engines.emplace_back(op_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  }
  if (engines.empty()) return engines;
  engines.erase(engines.begin() + answer(static_cast<int64_t>(raw.size()), raw.data()),
                engines.end());
  return engines;
}

std::unique_ptr<CudnnPlan> CudnnPlan::make(CudnnGraph graph, cudnnHandle_t handle) {
  const char* op = graph.op();
  for (CudnnDescriptor& engine : graph.engines(handle)) {
    CudnnDescriptor plan(op, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    if (!plan.try_finish()) continue;
    return std::unique_ptr<CudnnPlan>(
        new CudnnPlan(std::move(graph), std::move(engine), std::move(plan)));
  }
  return nullptr;
}

void CudnnPlan::run(const char* op, cudnnHandle_t handle, std::span<void* const> addresses) const {
  const Array scratch = workspace(op, plan_.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  CudnnDescriptor pack(op, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, graph_.given());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses);
  void* const room = scratch.defined() ? scratch.bytes() : nullptr;
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, room);
  pack.finish();
  const Launching launching(op);
  check_cudnn(cudnn().BackendExecute(handle, plan_.raw(), pack.raw()), op);
}

}  // namespace hero::cuda

#endif
