#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <hero/core/device/backend.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/libraries/products.cuh>
#include <hero/cuda/runtime/per_device.cuh>
#include <hero/cuda/runtime/times.cuh>
#include <hero/cuda/runtime/timing.cuh>

namespace hero::cuda {

namespace {

constexpr size_t kWorkspace = size_t{32} << 20;
constexpr int kCandidates = 8;
constexpr int64_t kMaxBatch = 65535;  // of a grid's third dimension

std::atomic<bool> tf32 = false;
std::atomic<int64_t> plans_made = 0, plans_reused = 0;

// A matrix as the library reads it: [rows, columns] is its own column-major transpose, or, where
// its rows are what lies dense, a column-major matrix to be transposed.
struct Matrix {
  Array array;
  bool by_rows;
  int64_t step;  // between rows, or between columns
};

Matrix in_place_or_copied(const Array& x) {
  if (!is_aligned(x)) {  // turned as it is
    const bool turned = x.strides()[1] == 1 && x.size(1) > 1 && x.strides()[2] >= x.size(1);
    const Array one = x.strides()[0] == 0 ? x.slice(0, 0, 1) : x;
    const Array copy = turned ? one.t().clone().t() : one.clone();
    return in_place_or_copied(copy.expand(x.shape()));
  }
  const int64_t rows = x.size(1), columns = x.size(2);
  const int64_t row_step = rows == 1 ? columns : x.strides()[1];
  const int64_t column_step = columns == 1 ? rows : x.strides()[2];
  if ((x.strides()[2] == 1 || columns == 1) && row_step >= columns) return {x, true, row_step};
  if ((x.strides()[1] == 1 || rows == 1) && column_step >= rows) return {x, false, column_step};
  const Array copy = (x.strides()[0] == 0 ? x.slice(0, 0, 1) : x).contiguous();
  return {copy.expand(x.shape()), true, columns};
}

// One product as the library sees it, column-major: D [n, m] = op(A) [n, k] op(B) [k, m], where A
// is the right factor, B the left one and D the transpose of out. All of it decides the algorithm.
struct Problem {
  int64_t n, m, k, batch;
  int64_t a_step, a_batch, b_step, b_batch;
  int64_t a_by_rows, b_by_rows;
  int64_t dtype, compute, epilogue;
  int64_t alignment;  // of all addresses, in bytes
  bool operator==(const Problem&) const = default;
};

struct ProblemHash {
  size_t operator()(const Problem& problem) const {
    static_assert(sizeof(Problem) % sizeof(uint64_t) == 0);
    uint64_t words[sizeof(Problem) / sizeof(uint64_t)];
    std::memcpy(words, &problem, sizeof(problem));
    uint64_t hash = 0;
    for (const uint64_t word : words) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

struct Addresses {
  const void *a, *b;
  void* d;
  const Epilogue& epilogue;
};

cudaDataType_t type_of(DType dtype) {
  if (dtype == kFloat64) return CUDA_R_64F;
  if (dtype == kBFloat16) return CUDA_R_16BF;
  return dtype == kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}
DType dtype_of(const Problem& problem) { return static_cast<DType>(problem.dtype); }

cublasComputeType_t compute_of(DType dtype) {
  if (dtype == kFloat64) return CUBLAS_COMPUTE_64F;
  return dtype == kFloat32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

// Descriptors with the attributes of one problem, for the current device.
class Plan {
 public:
  Plan(const char* op, const Problem& p, cublasLtHandle_t handle)
      : handle_(handle),
        product_(make_product(op, p)),
        a_(make_layout(op, p, p.a_by_rows ? p.n : p.k, p.a_by_rows ? p.k : p.n, p.a_step,
                       p.a_batch)),
        b_(make_layout(op, p, p.b_by_rows ? p.k : p.m, p.b_by_rows ? p.m : p.k, p.b_step,
                       p.b_batch)),
        d_(make_layout(op, p, p.n, p.m, p.n, p.n * p.m)),
        wide_(dtype_of(p) == kFloat64) {}

  // The library's proposals for the problem, the one it thinks quickest first.
  int candidates(const char* op, const Problem& p, const Epilogue& epilogue,
                 cublasLtMatmulHeuristicResult_t* found) {
    const Cublaslt& lt = cublaslt();
    // It looks at how an epilogue's addresses are aligned: no call's may be better than another's.
    const auto* any = reinterpret_cast<const void*>(kProductAlignment);
    aim(op, {epilogue.kind, epilogue.bias ? any : nullptr, epilogue.aux ? any : nullptr});
    cublasLtMatmulPreference_t raw = nullptr;
    check_cublaslt(lt.MatmulPreferenceCreate(&raw), op);
    const Owned<cublasLtMatmulPreference_t> wishes(raw, lt.MatmulPreferenceDestroy);
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_cublaslt(lt.MatmulPreferenceSetAttribute(raw, attribute, &value, sizeof(value)), op);
    };
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Parts of a sum are never rounded to 16 bits on their way.
    wish(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto alignment = static_cast<uint32_t>(p.alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    int count = 0;
    const cublasStatus_t status =
        lt.MatmulAlgoGetHeuristic(handle_, product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                  raw, kCandidates, found, &count);
    const bool plain = epilogue.kind == CUBLASLT_EPILOGUE_DEFAULT;
    // some epilogues that it does not have are invalid values to it
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (!plain && status == CUBLAS_STATUS_INVALID_VALUE))
      return 0;
    check_cublaslt(status, op);
    const auto failed = [](const cublasLtMatmulHeuristicResult_t& result) {
      return result.state != CUBLAS_STATUS_SUCCESS;
    };
    return static_cast<int>(std::remove_if(found, found + count, failed) - found);
  }

  void choose(const cublasLtMatmulHeuristicResult_t& chosen) { chosen_ = chosen; }

  // Asks the current stream for the product.
  cublasStatus_t run(const char* op, const Addresses& at) {
    const Cublaslt& lt = cublaslt();
    const Array scratch = workspace(op, static_cast<int64_t>(chosen_.workspaceSize));
    // The addresses of an epilogue are part of the descriptor, which threads share.
    std::unique_lock<std::mutex> lock;
    if (at.epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      lock = std::unique_lock(mutex_);
      aim(op, at.epilogue);
    }
    const Launching launching(op);
    const float one = 1.0f, zero = 0.0f;
    const double wide_one = 1.0, wide_zero = 0.0;
    const void* alpha = wide_ ? static_cast<const void*>(&wide_one) : &one;
    const void* beta = wide_ ? static_cast<const void*>(&wide_zero) : &zero;
    return lt.Matmul(handle_, product_.get(), alpha, at.a, a_.get(), at.b, b_.get(), beta, at.d,
                     d_.get(), at.d, d_.get(), &chosen_.algo,
                     scratch.defined() ? scratch.bytes() : nullptr, chosen_.workspaceSize,
                     current_stream());
  }

 private:
  void aim(const char* op, const Epilogue& epilogue) {
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* address) {
      if (!address) return;
      check_cublaslt(
          cublaslt().MatmulDescSetAttribute(product_.get(), attribute, &address, sizeof(address)),
          op);
    };
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux);
  }

  Owned<cublasLtMatmulDesc_t> make_product(const char* op, const Problem& p) {
    const Cublaslt& lt = cublaslt();
    cublasLtMatmulDesc_t raw = nullptr;
    const DType dtype = dtype_of(p);
    check_cublaslt(lt.MatmulDescCreate(&raw, static_cast<cublasComputeType_t>(p.compute),
                                       dtype == kFloat64 ? CUDA_R_64F : CUDA_R_32F),
                   op);
    Owned<cublasLtMatmulDesc_t> product(raw, lt.MatmulDescDestroy);
    const auto set_one = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      check_cublaslt(lt.MatmulDescSetAttribute(raw, attribute, &value, sizeof(value)), op);
    };
    const auto operation = [](int64_t by_rows) {
      return static_cast<int32_t>(by_rows ? CUBLAS_OP_N : CUBLAS_OP_T);
    };
    set_one(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.a_by_rows));
    set_one(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.b_by_rows));
    if (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return product;
    set_one(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(p.epilogue));
    set_one(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(dtype)));
    if (p.epilogue & 128) set_one(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);  // .._AUX, DGELU
    return product;
  }

  static Owned<cublasLtMatrixLayout_t> make_layout(const char* op, const Problem& p, int64_t rows,
                                                   int64_t columns, int64_t step, int64_t batch) {
    const Cublaslt& lt = cublaslt();
    cublasLtMatrixLayout_t raw = nullptr;
    check_cublaslt(lt.MatrixLayoutCreate(&raw, type_of(dtype_of(p)), static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(columns), step),
                   op);
    Owned<cublasLtMatrixLayout_t> layout(raw, lt.MatrixLayoutDestroy);
    const auto set_one = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      check_cublaslt(lt.MatrixLayoutSetAttribute(raw, attribute, &value, sizeof(value)), op);
    };
    set_one(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(p.batch));
    set_one(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch);
    return layout;
  }

  cublasLtHandle_t handle_;
  Owned<cublasLtMatmulDesc_t> product_;
  Owned<cublasLtMatrixLayout_t> a_, b_, d_;
  bool wide_;
  cublasLtMatmulHeuristicResult_t chosen_{};
  std::mutex mutex_;
};

bool may_measure() {
  static const bool wanted = [] {
    const char* text = std::getenv("HERO_CUDA_AUTOTUNE");
    return !text || std::strcmp(text, "0") != 0;
  }();
  return wanted && !capturing();
}

// With HERO_CUDA_SYNC=1, before it runs: an algorithm that faults takes the process along, and this
// line is then the last.
void log_algorithm(const char* op, const cublasLtMatmulHeuristicResult_t& candidate) {
  int32_t id = -1;
  size_t written = 0;
  cublaslt().MatmulAlgoConfigGetAttribute(&candidate.algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof(id),
                                          &written);
  std::fprintf(stderr, "%s: cuBLASLt's algorithm %d, with %zu bytes of workspace\n", op,
               static_cast<int>(id), candidate.workspaceSize);
}

// Leaves the plan with the quickest of the candidates, the first one of those that are nearly as
// quick, and the product in d. False when none can be run in `limit` milliseconds.
bool measure(const char* op, Plan& plan, const Addresses& at,
             const cublasLtMatmulHeuristicResult_t* candidates, int count, double limit) {
  constexpr double kNearly = 0.98;
  std::array<double, kCandidates> least{};
  std::array<bool, kCandidates> runs{};
  for (int i = 0; i < count; ++i) {  // also warms up
    plan.choose(candidates[i]);
    if (synchronous()) log_algorithm(op, candidates[i]);
    runs[i] = plan.run(op, at) == CUBLAS_STATUS_SUCCESS;
    if (!runs[i]) cudaGetLastError();
    if (synchronous()) check_cuda(cudaStreamSynchronize(current_stream()), op);
  }
  for (int round = 0; round < kTimedRounds; ++round) {
    for (int i = 0; i < count; ++i) {
      if (!runs[i]) continue;
      plan.choose(candidates[i]);
      const double time = time_of(op, [&] { check_cublaslt(plan.run(op, at), op); });
      least[i] = round == 0 ? time : std::min(least[i], time);
    }
  }
  int best = -1;
  for (int i = 0; i < count; ++i) {
    if (runs[i] && (best < 0 || least[i] < kNearly * least[best])) best = i;
  }
  if (best < 0) wait_for_stream(op);  // not theirs, perhaps
  if (best < 0 || least[best] > limit) return false;
  plan.choose(candidates[best]);
  return true;
}

// The library's handle and the plans of one device.
class Plans {
 public:
  explicit Plans(const char* op) { check_cublaslt(cublaslt().Create(&handle_), op); }

  // Null where no algorithm exists, or what is done otherwise is quicker. No lock is held while a
  // plan is made: to measure waits for the stream, which may wait for another rank of the process,
  // and that rank may want a plan before its call. Of two threads that make one the first decides.
  Plan* get(const char* op, const Problem& problem, const Addresses& at,
            const Otherwise& otherwise) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = plans_.find(problem);
      if (found != plans_.end()) {
        ++plans_reused;
        return found->second.get();
      }
    }
    std::unique_ptr<Plan> plan = make(op, problem, at, otherwise);
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = plans_.try_emplace(problem, std::move(plan));
    ++(is_new ? plans_made : plans_reused);
    return place->second.get();
  }

 private:
  std::unique_ptr<Plan> make(const char* op, const Problem& problem, const Addresses& at,
                             const Otherwise& otherwise) {
    const bool measured = may_measure();
    double limit = std::numeric_limits<double>::infinity();
    if (measured && otherwise) limit = least_time(op, otherwise);
    auto plan = std::make_unique<Plan>(op, problem, handle_);
    cublasLtMatmulHeuristicResult_t candidates[kCandidates];
    const int count = plan->candidates(op, problem, at.epilogue, candidates);
    if (count == 0) return nullptr;
    if (!measured || (count == 1 && problem.epilogue == CUBLASLT_EPILOGUE_DEFAULT)) {
      plan->choose(candidates[0]);
      return plan;
    }
    return measure(op, *plan, at, candidates, count, limit) ? std::move(plan) : nullptr;
  }

  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Problem, std::unique_ptr<Plan>, ProblemHash> plans_;
};

int64_t alignment_of(std::initializer_list<const void*> addresses) {
  uintptr_t bits = kProductAlignment;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<int64_t>(bits & (~bits + 1));
}

bool product_of_batch(const char* op, const Matrix& a, const Matrix& b, const Array& out,
                      const Epilogue& epilogue, const Otherwise& otherwise) {
  const int64_t batch = out.size(0);
  const Addresses at{b.array.bytes(), a.array.bytes(), out.bytes(), epilogue};
  const Problem problem{
      .n = out.size(2),
      .m = out.size(1),
      .k = a.array.size(2),
      .batch = batch,
      .a_step = b.step,
      .a_batch = batch == 1 ? 0 : b.array.strides()[0],
      .b_step = a.step,
      .b_batch = batch == 1 ? 0 : a.array.strides()[0],
      .a_by_rows = b.by_rows,
      .b_by_rows = a.by_rows,
      .dtype = static_cast<int64_t>(out.dtype()),
      .compute = compute_of(out.dtype()),
      .epilogue = epilogue.kind,
      .alignment = alignment_of({at.a, at.b, at.d}),
  };
  Plan* plan = of_current_device<Plans>(op).get(op, problem, at, otherwise);
  if (!plan) {
    check(epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT, op, ": cuBLASLt has no algorithm for ",
          a.array.shape(), " x ", b.array.shape(), " of ", out.dtype(),
          "; cut the matrices or compute it on cpu");
    return false;
  }
  check_cublaslt(plan->run(op, at), op);
  return true;
}

}  // namespace

bool product(const char* op, const Array& a_in, const Array& b_in, const Array& out_in,
             const Epilogue& epilogue, const Otherwise& otherwise) {
  if (!is_aligned(out_in)) {
    const Array near = out_in.empty_like();
    if (!product(op, a_in, b_in, near, epilogue, otherwise)) return false;
    core::backend(near.device()).run(core::call::Copy{near, out_in});
    return true;
  }
  Array a = a_in, b = b_in, out = out_in;
  const int64_t rows = a.size(0) * a.size(1);
  // One right factor: where the left rows lie evenly they are those of one tall matrix.
  if (a.size(0) > 1 && b.strides()[0] == 0 && a.strides()[0] == a.size(1) * a.strides()[1]) {
    a = Array(a.storage_ref(), {1, rows, a.size(2)}, {0, a.strides()[1], a.strides()[2]},
              a.offset(), a.dtype());
    b = b.slice(0, 0, 1);
    out = out.reshape({1, rows, out.size(2)});
  }
  const Matrix left = in_place_or_copied(a), right = in_place_or_copied(b);
  bool done = true;
  for (int64_t at = 0; done && at < out.size(0); at += kMaxBatch) {
    const int64_t end = std::min(out.size(0), at + kMaxBatch);
    const auto part = [&](const Matrix& x) {
      return Matrix{x.array.slice(0, at, end), x.by_rows, x.step};
    };
    done =
        product_of_batch(op, part(left), part(right), out.slice(0, at, end), epilogue, otherwise);
  }
  if (synchronous() && !capturing()) check_cuda(cudaStreamSynchronize(current_stream()), op);
  return done;
}

void set_allow_tf32(bool allow) { tf32 = allow; }
bool allow_tf32() { return tf32; }
ProductPlans product_plans() { return {plans_made, plans_reused}; }

}  // namespace hero::cuda
