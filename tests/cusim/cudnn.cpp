// cuDNN's graphs as its interface describes them: operations carried out one
// after the other, by plain loops, in double, each result rounded to its
// tensor's type. One engine, for graphs of halves [B, H, rows, columns] with
// columns in groups of 8 and no long dimension. It wants a workspace and fills
// it with noise.
#include "cudnn.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <string>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using namespace cusim;

constexpr size_t kWorkspace = 128;
constexpr int64_t kLongest = 1500;  // of a dimension
std::atomic<int64_t> runs = 0;
thread_local std::string reason;

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& why) {
  reason = why;
  return status;
}

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

// \name Descriptors

cudnnStatus_t check_tensor(const Descriptor& d) {
  const Tensor x(d);
  if (x.shape.size() != 4 || x.strides.size() != 4) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "tensor: needs four dimensions");
  }
  if (*std::min_element(x.shape.begin(), x.shape.end()) <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "tensor: a size is not positive");
  }
  if (*std::min_element(x.strides.begin(), x.strides.end()) <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "tensor: a stride is not positive");
  }
  if (x.hidden && x.by_value) return refuse(CUDNN_STATUS_BAD_PARAM, "tensor: virtual and a value");
  return CUDNN_STATUS_SUCCESS;
}

const Descriptor* graph_of(const Descriptor& engine) {
  return engine.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

std::vector<Operation> operations_of(const Descriptor& graph) {
  std::vector<Operation> operations;
  for (void* raw : graph.all<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    operations.push_back(operation_of(*static_cast<const Descriptor*>(raw)));
  }
  return operations;
}

// Halves in rows of groups of 8, and few enough of them.
bool is_supported(const Descriptor& graph) {
  for (const Operation& op : operations_of(graph)) {
    for (const Tensor& x : op.in) {
      if (*std::max_element(x.shape.begin(), x.shape.end()) > kLongest) return false;
    }
  }
  const Tensor first = operations_of(graph).front().in[0];
  return first.type != CUDNN_DATA_FLOAT && first.shape[3] % 8 == 0;
}

bool is_operation(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
}

}  // namespace

int64_t cusim::cudnn_runs() { return runs; }

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return "CUDNN_STATUS_SUCCESS";
  return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_NOT_SUPPORTED";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "%s", reason.c_str());
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (d.finished) return refuse(CUDNN_STATUS_BAD_PARAM, "set: the descriptor is finished");
  const auto* bytes = static_cast<const char*>(values);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const auto* child = static_cast<Descriptor* const*>(values)[i];
      if (!child->finished) return refuse(CUDNN_STATUS_BAD_PARAM, "set: a part is not finished");
    }
  }
  d.values[name].assign(bytes, bytes + static_cast<size_t>(count) * bytes_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    if (const cudnnStatus_t status = check_tensor(d)) return status;
  }
  if (is_operation(d.type) && !fits(operation_of(d))) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "operation: sizes do not fit");
  }
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      !graph_of(d)->one<void*>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) &&
      !d.child(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "heuristic: for which device?");
  }
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      !d.one<void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "plan: for which device?");
  }
  d.finished = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t* count,
                                       void* values) {
  const auto& d = *static_cast<Descriptor*>(descriptor);
  if (!d.finished) return refuse(CUDNN_STATUS_BAD_PARAM, "get: the descriptor is not finished");
  *count = 1;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<int64_t*>(values) = static_cast<int64_t>(kWorkspace);
    return CUDNN_STATUS_SUCCESS;
  }
  // proposals: one engine, or none
  const Descriptor* graph = graph_of(d);
  *count = is_supported(*graph) ? 1 : 0;
  if (wanted > 0 && *count == 1) {
    Descriptor* engine = *static_cast<Descriptor**>(values);
    engine->finished = true;
    engine->values[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
        d.values.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const auto& p = *static_cast<Descriptor*>(pack);
  const auto ids = p.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = p.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* const workspace = p.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (ids.size() != addresses.size() || !workspace) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "execute: addresses are missing");
  }
  const Descriptor* engine =
      static_cast<Descriptor*>(plan)->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const std::vector<Operation> operations = operations_of(*graph_of(*engine));
  Run run;
  for (size_t i = 0; i < ids.size(); ++i) run.memory[ids[i]] = addresses[i];
  std::set<int64_t> unused(ids.begin(), ids.end());
  for (const Operation& op : operations) {
    std::vector<Tensor> all = op.in;
    all.push_back(op.out);
    for (const Tensor& x : all) {
      if (x.hidden) continue;
      unused.erase(x.id);
      const auto found = run.memory.find(x.id);
      if (found == run.memory.end() || !found->second) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "execute: a tensor has no address");
      }
      if (x.by_value) {  // read now: it lies on the caller's stack
        run.fetch(x);
      } else if (reinterpret_cast<uintptr_t>(found->second) % 16 != 0) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "execute: an address is no multiple of 16");
      }
    }
  }
  if (!unused.empty()) return refuse(CUDNN_STATUS_BAD_PARAM, "execute: an address of no tensor");
  cusim::enqueue("attention", handle->stream, [run, operations, workspace]() mutable {
    std::memset(workspace, 0xAB, kWorkspace);
    for (const Operation& op : operations) run.carry_out(op);
  });
  ++runs;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
