// Products as cuBLASLt's interface describes them, by plain loops, and its refusals. There are
// three algorithms: 0 adds a sum's terms from the first to the last, 1 from the last to the first,
// 2 interleaved, so that bits tell which one ran; the second is the quickest by cusim's clock, the
// third the slowest. The last two want a workspace, which they fill with noise.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "numbers.h"
#include <cublasLt.h>

struct cublasLtContext {};
struct cusim_matmul_desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_step = 0;
  int32_t bias_type = -1;
};
struct cusim_matrix_layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t step;
  int32_t batch = 1;
  int64_t batch_step = 0;
};
struct cusim_matmul_preference {
  size_t workspace = 0;
  uint32_t schemes = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

constexpr size_t kWorkspace[3] = {0, 1000, 4096};
constexpr double kMilliseconds[3] = {2.0, 1.0, 3.0};
cusim::Products seen;
std::mutex seen_mutex;
std::atomic<double> epilogue_ms = 0.0;
std::atomic<bool> no_epilogues = false;

void note(const auto& change) {
  const std::lock_guard lock(seen_mutex);
  change(seen);
}

template <class T>
bool take(T& to, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return false;
  std::memcpy(&to, value, bytes);
  return true;
}
cublasStatus_t valid(bool ok) { return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

hero::DType dtype_of(cudaDataType_t type) {
  if (type == CUDA_R_64F) return hero::kFloat64;
  if (type == CUDA_R_16F) return hero::kFloat16;
  return type == CUDA_R_16BF ? hero::kBFloat16 : hero::kFloat32;
}
double load(const void* data, cudaDataType_t type, int64_t at) {
  return cusim::load(data, dtype_of(type), at);
}
void store(void* data, cudaDataType_t type, int64_t at, double value) {
  cusim::store(data, dtype_of(type), at, value);
}

// TF32 keeps 11 bits of the factors.
double factor(double value, cublasComputeType_t compute) {
  if (compute != CUBLAS_COMPUTE_32F_FAST_TF32) return value;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & ~0x1FFFu));
}

struct Sizes {
  int64_t m, n, k;
};
Sizes sizes_of(const cusim_matmul_desc& desc, const cusim_matrix_layout& a,
               const cusim_matrix_layout& d) {
  return {static_cast<int64_t>(d.rows), static_cast<int64_t>(d.columns),
          static_cast<int64_t>(desc.trans_a == CUBLAS_OP_N ? a.columns : a.rows)};
}

bool is_known(uint32_t kind) {
  return kind == CUBLASLT_EPILOGUE_DEFAULT || kind == CUBLASLT_EPILOGUE_BIAS ||
         kind == CUBLASLT_EPILOGUE_RELU_BIAS || kind == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         kind == CUBLASLT_EPILOGUE_DGELU || kind == CUBLASLT_EPILOGUE_BGRADB;
}
bool has_aux(uint32_t epilogue) { return (epilogue & 128) != 0; }
bool has_bias(uint32_t epilogue) {
  return epilogue != CUBLASLT_EPILOGUE_DEFAULT && (epilogue & (4 | 512)) != 0;
}

// What the library checks of shapes and types.
cublasStatus_t check_problem(const cusim_matmul_desc& desc, const cusim_matrix_layout& a,
                             const cusim_matrix_layout& b, const cusim_matrix_layout& d) {
  const auto [m, n, k] = sizes_of(desc, a, d);
  const bool plain_a = desc.trans_a == CUBLAS_OP_N, plain_b = desc.trans_b == CUBLAS_OP_N;
  bool ok = m > 0 && n > 0 && k > 0;
  ok = ok && static_cast<int64_t>(plain_a ? a.rows : a.columns) == m;
  ok = ok && static_cast<int64_t>(plain_b ? b.rows : b.columns) == k;
  ok = ok && static_cast<int64_t>(plain_b ? b.columns : b.rows) == n;
  for (const cusim_matrix_layout* x : {&a, &b, &d}) {
    ok = ok && x->step >= static_cast<int64_t>(x->rows) && x->batch == d.batch && x->batch > 0 &&
         x->batch <= 65535 && x->batch_step >= 0 && x->type == d.type;
  }
  ok = ok && (d.batch == 1 || d.batch_step >= m * n);
  ok = ok && is_known(desc.epilogue);
  if (has_aux(desc.epilogue)) ok = ok && desc.aux_step >= m;
  if (!ok) return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = d.type == CUDA_R_64F;
  if (wide != (desc.compute == CUBLAS_COMPUTE_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc.scale != (wide ? CUDA_R_64F : CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && d.type != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  // epilogues are for halves and floats, one matrix, and their extra matrix has rows of 16 bytes
  if (has_bias(desc.epilogue) && !desc.bias) return CUBLAS_STATUS_INVALID_VALUE;
  if (has_aux(desc.epilogue) && !desc.aux) return CUBLAS_STATUS_INVALID_VALUE;
  const bool fits = !wide && d.batch == 1 &&
                    (!has_bias(desc.epilogue) || desc.bias_type == static_cast<int32_t>(d.type)) &&
                    (!has_aux(desc.epilogue) || desc.aux_step % 8 == 0);
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

uint64_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 16;
  return bits & (~bits + 1);
}

constexpr double kGeluFactor = 0.7978845608028654, kGeluCube = 0.044715;

double gelu(double z) {
  return 0.5 * z * (1.0 + std::tanh(kGeluFactor * (z + kGeluCube * z * z * z)));
}
double gelu_slope(double z) {
  const double t = std::tanh(kGeluFactor * (z + kGeluCube * z * z * z));
  return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * kGeluFactor * (1.0 + 3.0 * kGeluCube * z * z);
}

// One call, with copies of what it was given.
struct Call {
  cusim_matmul_desc desc;
  cusim_matrix_layout a, b, d;
  const void *a_data, *b_data, *c_data;
  void *d_data, *workspace;
  double scale = 1.0, keep = 0.0;
  int algorithm = 0;

  double of_a(int64_t batch, int64_t i, int64_t q) const {
    const int64_t at = desc.trans_a == CUBLAS_OP_N ? i + q * a.step : q + i * a.step;
    return factor(load(a_data, a.type, batch * a.batch_step + at), desc.compute);
  }
  double of_b(int64_t batch, int64_t q, int64_t j) const {
    const int64_t at = desc.trans_b == CUBLAS_OP_N ? q + j * b.step : j + q * b.step;
    return factor(load(b_data, b.type, batch * b.batch_step + at), desc.compute);
  }
  // The terms of a sum, in the order in which the algorithm adds them.
  std::vector<int64_t> order(int64_t k) const {
    std::vector<int64_t> terms;
    for (int64_t q = 0; q < k; ++q) terms.push_back(algorithm == 1 ? k - 1 - q : q);
    const auto even = [](int64_t q) { return q % 2 == 0; };
    if (algorithm > 1) std::stable_partition(terms.begin(), terms.end(), even);
    return terms;
  }
};

double finished(const cusim_matmul_desc& desc, cudaDataType_t type, double value, int64_t i,
                int64_t j) {
  const auto epilogue = desc.epilogue;
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return value;
  if (epilogue & 64) {
    return value * gelu_slope(load(desc.aux, type, i + j * desc.aux_step));
  }
  if (epilogue & 4) value += load(desc.bias, type, i);
  if (epilogue & 128) store(desc.aux, type, i + j * desc.aux_step, value);
  if (epilogue & 2) value = std::max(value, 0.0);
  return epilogue & 32 ? gelu(value) : value;
}

// sums += factors * b, rounded to float where that is computed in; a loop without a wait in it
void add_terms(std::vector<double>& sums, const double* factors, double b, bool wide) {
  if (wide) {
    for (double& sum : sums) sum += *factors++ * b;
  } else {
    for (double& sum : sums) sum = static_cast<double>(static_cast<float>(sum + *factors++ * b));
  }
}

void run(const Call& call) {
  const cusim_matmul_desc& desc = call.desc;
  const auto [m, n, k] = sizes_of(desc, call.a, call.d);
  const cudaDataType_t type = call.d.type;
  const size_t needed = kWorkspace[call.algorithm];
  if (needed > 0) std::memset(call.workspace, 0xAB, needed);
  const bool wide = desc.compute == CUBLAS_COMPUTE_64F;
  const std::vector<int64_t> order = call.order(k);
  std::vector<double> factors(static_cast<size_t>(m * k)), sums(static_cast<size_t>(m));
  for (int64_t p = 0; p < call.d.batch; ++p) {
    double* next = factors.data();
    for (const int64_t q : order) {
      for (int64_t i = 0; i < m; ++i) *next++ = call.of_a(p, i, q);
    }
    for (int64_t j = 0; j < n; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0);
      next = factors.data();
      for (const int64_t q : order) {
        add_terms(sums, next, call.of_b(p, q, j), wide);
        next += m;
      }
      for (int64_t i = 0; i < m; ++i) {
        const int64_t at = p * call.d.batch_step + i + j * call.d.step;
        double value = call.scale * sums[static_cast<size_t>(i)];
        if (call.keep != 0.0) value += call.keep * load(call.c_data, type, at);
        value = finished(desc, type, value, i, j);
        store(call.d_data, type, at, value);
      }
    }
  }
  if (desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    for (int64_t j = 0; j < n; ++j) {
      double total = 0.0;
      for (int64_t q = 0; q < k; ++q) total += call.of_b(0, q, j);
      store(desc.bias, type, j, total);
    }
  }
  cusim::advance(kMilliseconds[call.algorithm]);
  if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT) cusim::advance(epilogue_ms);
  note([](cusim::Products& products) { ++products.calls; });
}

}  // namespace

cusim::Products cusim::products() {
  const std::lock_guard lock(seen_mutex);
  return seen;
}
void cusim::set_epilogues(double milliseconds, bool refused) {
  epilogue_ms = milliseconds;
  no_epilogues = refused;
}

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static cublasLtContext context;
  *handle = &context;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "a status without a name";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = new cusim_matmul_desc{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return valid(take(desc->trans_a, value, bytes));
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return valid(take(desc->trans_b, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return valid(take(desc->epilogue, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return valid(take(desc->bias, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return valid(take(desc->aux, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return valid(take(desc->aux_step, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return valid(take(desc->bias_type, value, bytes));
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t step) {
  *layout = new cusim_matrix_layout{type, rows, columns, step};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return valid(attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
                   ? take(layout->batch, value, bytes)
                   : take(layout->batch_step, value, bytes));
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cusim_matmul_preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return valid(take(preference->workspace, value, bytes));
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return valid(take(preference->schemes, value, bytes));
    default:
      return valid(
          take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
               bytes));
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  note([](cusim::Products& products) { ++products.heuristics; });
  *count = 0;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (const cublasStatus_t status = check_problem(*desc, *a, *b, *d)) return status;
  for (int i = 0; i < 3 && *count < wanted; ++i) {
    if (kWorkspace[i] > preference->workspace) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo.data[0] = static_cast<uint64_t>(i);
    for (int x = 0; x < 4; ++x) result.algo.data[1 + x] = preference->alignment[x];
    result.algo.data[5] = alignment_of(desc->bias);
    result.algo.data[6] = alignment_of(desc->aux);
    result.workspaceSize = kWorkspace[i];
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha || !beta || !a || !b || !d || !algo) return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t status = check_problem(*desc, *a_layout, *b_layout, *d_layout)) {
    return status;
  }
  const auto algorithm = static_cast<int>(algo->data[0]);
  const size_t needed = kWorkspace[algorithm];
  if (workspace_bytes < needed || (needed > 0 && !workspace)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain = desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!plain && no_epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
  // The epilogue's addresses must lie as well as those that the heuristic saw.
  const void* addresses[6] = {a, b, c, d, desc->bias, desc->aux};
  for (int x = 0; x < 6; ++x) {
    if (reinterpret_cast<uintptr_t>(addresses[x]) % algo->data[1 + x] != 0) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  note([&](cusim::Products& products) {
    products.last_algorithm = algorithm;
    products.last_compute = desc->compute;
    products.last_epilogue = static_cast<cublasLtEpilogue_t>(desc->epilogue);
  });
  Call call{*desc, *a_layout, *b_layout, *d_layout, a, b, c, d, workspace};
  call.scale = load(alpha, desc->scale, 0);
  call.keep = load(beta, desc->scale, 0);
  call.algorithm = algorithm;
  cusim::enqueue("matmul", stream, [call] { run(call); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
