// Products on the GPU beside the CPU's in float64.
#include <thread>

#include "cuda/close.h"
#include "support/child.h"

#include <hero/core/device/backend.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/ledger.h>
#include <hero/cuda/graph.h>
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#if defined(HERO_CUSIM)
#include <cublasLt.h>
#endif

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using core::matmul;
using hero::test::awkward;
using hero::test::error_of;
using hero::test::noise;
using hero::test::same;

namespace {

void check_product(const Array& a, const Array& b) {
  const Array expected = matmul(a.to(kFloat64), b.to(kFloat64));
  const Array got = matmul(a.to(kGpu), b.to(kGpu));
  CHECK(got.device() == kGpu);
  CHECK(got.dtype() == a.dtype());
  CHECK(distance(got, expected) <= product_tolerance(a.dtype(), a.size(-1)));
}

}  // namespace

TEST_CASE("products of every floating dtype and odd sizes are those of float64") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16, kFloat16);
  const auto [m, n, k] = GENERATE(std::tuple{1, 1, 1}, std::tuple{1, 17, 33}, std::tuple{33, 1, 7},
                                  std::tuple{5, 3, 1}, std::tuple{31, 65, 40});
  check_product(noise({m, k}, dtype, 1), noise({k, n}, dtype, 2));
}

TEST_CASE("products read views where they lie or copy them, and are the same") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kBFloat16);
  const Array base = noise({3, 40, 40}, dtype, 3);
  const auto views = [&](int64_t rows, int64_t columns) {
    std::vector<Array> result;
    result.push_back(base.slice(1, 1, 1 + rows).slice(2, 2, 2 + columns));      // rows far apart
    result.push_back(base.slice(1, 1, 1 + columns).slice(2, 2, 2 + rows).t());  // columns
    result.push_back(awkward(base.slice(1, 0, rows).slice(2, 0, columns)));     // neither dense
    result.push_back(base.as_strided({3, rows, columns}, {40, 1, 2}, 5));       // overlapping
    result.push_back(base.as_strided({3, rows, columns}, {1600, 0, 1}, 7));     // one row
    result.push_back(base.as_strided({3, rows, columns}, {0, 40, 1}, 9));       // one matrix
    result.push_back(base.as_strided({3, rows, columns}, {0, 40, 2}, 11));      // one, with gaps
    return result;
  };
  for (const Array& a : views(7, 11)) {
    for (const Array& b : views(11, 5)) {
      INFO("a " << to_string(a.strides()) << " b " << to_string(b.strides()));
      const Array got = matmul(on_gpu(a), on_gpu(b));
      const Array expected = matmul(a.to(kFloat64), b.to(kFloat64));
      CHECK(distance(got, expected) <= product_tolerance(dtype, 11));
    }
  }
}

TEST_CASE("batches broadcast, lists are rows and columns, and empty sums are zero") {
  HERO_NEEDS_GPU();
  const Array lists = noise({2, 1, 3, 5, 4});
  check_product(lists, noise({7, 1, 4, 6}, kFloat32, 2));
  check_product(lists, noise({4, 6}, kFloat32, 3));  // one tall product
  check_product(noise({6, 5}), lists);               // one left factor
  check_product(noise({3, 2, 4}).transpose(0, 1), noise({4, 6}, kFloat32, 4));
  check_product(noise({4}), noise({4}, kFloat32, 5));
  check_product(noise({4}), noise({3, 4, 2}, kFloat32, 6));
  check_product(noise({3, 5, 4}), noise({4}, kFloat32, 7));
  const Array zero =
      matmul(Array::empty({2, 3, 0}, kFloat32, kGpu), Array::empty({2, 0, 4}, kFloat32, kGpu));
  CHECK(same(zero.to(kCpu), Array::zeros({2, 3, 4})));
  CHECK(
      matmul(Array::empty({0, 3}, kFloat32, kGpu), Array::empty({3, 4}, kFloat32, kGpu)).shape() ==
      Shape{0, 4});
}

TEST_CASE("integers are multiplied exactly, modulo their size") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kInt64, kInt32, kUInt8);
  const auto numbers = [&](const Shape& shape, int64_t factor) {
    return hero::test::make(
        shape, [&](int64_t i) { return static_cast<double>((i * factor) % 65521); }, kInt64);
  };
  // squares of numbers above 2^31 pass 2^63
  const Array a = core::matmul(numbers({2, 17, 35}, 7919), numbers({35, 33}, 104729));
  const Array b = numbers({2, 33, 18}, 6700417);
  const Array left = a.to(dtype), right = b.to(dtype);
  CHECK(same(matmul(left.to(kGpu), right.to(kGpu)).to(kCpu), matmul(left, right)));
  CHECK(same(matmul(awkward_on_gpu(left), right.to(kGpu)).to(kCpu), matmul(left, right)));
  CHECK(same(matmul(left.to(kGpu), on_gpu(right.slice(0, 1, 2))).to(kCpu),
             matmul(left, right.slice(0, 1, 2))));
  const Array flags = Array::zeros({1, 2, 2}, kBool, kGpu);
  CHECK_THROWS_WITH(core::backend(kGpu).run(core::call::Matmul{flags, flags, flags}),
                    ContainsSubstring("bool"));
}

TEST_CASE("a packed matrix gives the products of the matrix") {
  HERO_NEEDS_GPU();
  const DType dtype = GENERATE(kFloat32, kFloat64, kBFloat16);
  core::Backend& device = core::backend(kGpu);
  const Array a = noise({3, 9}, dtype, 1), w = noise({6, 9}, dtype, 2);
  const core::PackedMatrix packed = device.run(core::call::PackMatrix{w.to(kGpu).t()});
  CHECK(packed.rows == 9);
  CHECK(packed.columns == 6);
  const Array out = Array::empty({3, 6}, dtype, kGpu);
  device.run(core::call::MatmulPacked{a.to(kGpu), packed, out});
  CHECK(distance(out, matmul(a.to(kFloat64), w.to(kFloat64).t())) <= product_tolerance(dtype, 9));
}

TEST_CASE("a product is set up once for a shape and has the same bits every time") {
  HERO_NEEDS_GPU();
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Array a = noise({19, 23}).to(kGpu), b = noise({23, 29}, kFloat32, 2).to(kGpu);
  const int64_t before = ledger.live(DeviceType::cuda);
  const cuda::ProductPlans start = cuda::product_plans();
  const Array first = matmul(a, b).to(kCpu);
  CHECK(cuda::product_plans().made == start.made + 1);
  for (int i = 0; i < 3; ++i) CHECK(same(matmul(a, b).to(kCpu), first));
  CHECK(cuda::product_plans().made == start.made + 1);
  CHECK(cuda::product_plans().reused == start.reused + 3);
  matmul(a.slice(0, 0, 18), b);
  matmul(a, b.contiguous().to(kCpu).t().contiguous().to(kGpu).t());
  CHECK(cuda::product_plans().made == start.made + 3);
  CHECK(ledger.live(DeviceType::cuda) == before);  // no workspace is kept
}

TEST_CASE("a captured product runs the algorithm that eager ones run") {
  HERO_NEEDS_GPU();
  const Array a = noise({6, 43}).to(kGpu), w = noise({43, 8}, kFloat32, 2).to(kGpu);
  const Array bias = noise({8}, kFloat32, 3).to(kGpu);
  const auto step = [&](const std::vector<Array>& in) {
    const Array out = Array::empty({6, 8}, kFloat32, kGpu), z = out.empty_like();
    core::backend(kGpu).run(
        core::call::Linear{core::Activation::gelu_tanh, in[0], w.t(), &bias, out, &z});
    return std::vector<Array>{matmul(in[0], w), out};
  };
  const std::vector<Array> eager = step({a});
  cuda::GraphedStep graphed(step);
  for (int i = 0; i < 4; ++i) {
    const std::vector<Array> results = graphed({a});
    for (size_t k = 0; k < 2; ++k) CHECK(same(results[k].to(kCpu), eager[k].to(kCpu)));
  }
  CHECK(graphed.captured());
}

TEST_CASE("threads share the plans of a device") {
  HERO_NEEDS_GPU();
  const Array a = noise({8, 37}), b = noise({37, 3}, kFloat32, 2);
  const cuda::ProductPlans start = cuda::product_plans();
  std::vector<Array> results(4);
  std::vector<std::thread> threads;
  for (Array& result : results) {
    threads.emplace_back([&] { result = matmul(a.to(kGpu), b.to(kGpu)).to(kCpu); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Array& result : results) CHECK(same(result, results[0]));
  CHECK(cuda::product_plans().made == start.made + 1);
}

TEST_CASE("TF32 rounds the factors of float32 and is used only when it was allowed") {
  HERO_NEEDS_GPU();
  const Array a = noise({32, 64}), b = noise({64, 32}, kFloat32, 2);
  const Array expected = matmul(a.to(kFloat64), b.to(kFloat64));
  CHECK_FALSE(cuda::allow_tf32());
  const Array exact = matmul(a.to(kGpu), b.to(kGpu));
  cuda::set_allow_tf32(true);
  const Array rounded = matmul(a.to(kGpu), b.to(kGpu));
  const Array wide = matmul(a.to(kFloat64).to(kGpu), b.to(kFloat64).to(kGpu));
  cuda::set_allow_tf32(false);
  CHECK(distance(exact, expected) <= product_tolerance(kFloat32, 64));
  // two factors with 11 bits each, in random directions
  CHECK(distance(rounded, expected) <= 2.0 * 0x1p-11);
  CHECK(distance(wide, expected) <= product_tolerance(kFloat64, 64));
#if defined(HERO_CUSIM)
  CHECK(distance(rounded, expected) > product_tolerance(kFloat32, 64));
#endif
  CHECK(same(matmul(a.to(kGpu), b.to(kGpu)).to(kCpu), exact.to(kCpu)));
}

// \name Run as children, in an environment of their own.

TEST_CASE("child: the library is looked for where HERO_CUBLASLT says", "[.]") {
  const Array a = noise({2, 2}).to(kGpu);
  const std::string error = error_of([&] { matmul(a, a); });
  const std::string wanted = Child::argument();
  REQUIRE(error.find(wanted) != std::string::npos);
  REQUIRE(error.find("HERO_CUBLASLT") != std::string::npos);
  REQUIRE(error.rfind("matmul: ", 0) == 0);
  // what needs no library goes on
  const Array n = Array::full({2, 2}, 3, kInt32, kGpu);
  REQUIRE(matmul(n, n).to(kCpu).data<int32_t>()[3] == 18);
}

TEST_CASE("products without cuBLASLt say what is missing") {
  HERO_NEEDS_GPU();
  const auto child_with = [](const char* file, const char* wanted) {
    ::setenv("HERO_CUBLASLT", file, 1);
    Child child("child: the library is looked for where HERO_CUBLASLT says", wanted);
    const int code = child.wait();
    ::unsetenv("HERO_CUBLASLT");
    return code;
  };
  CHECK(child_with("/nowhere/libcublasLt.so", "/nowhere/libcublasLt.so, which cannot be opened") ==
        0);
  CHECK(child_with("libm.so.6", "has no function cublasLtCreate") == 0);
}

#if defined(HERO_CUSIM)

TEST_CASE("the first product of a shape measures the algorithms, later ones run the quickest") {
  const Array a = noise({3, 41}).to(kGpu), b = noise({41, 7}, kFloat32, 2).to(kGpu);
  const cusim::Products before = cusim::products();
  const Array first = matmul(a, b);
  cuda::synchronize(kGpu);
  // three algorithms, each once to warm up and twice four times by the clock; then the one kept
  CHECK(cusim::products().calls == before.calls + 3 * 9 + 1);
  CHECK(cusim::products().last_algorithm == 1);
  matmul(a, b);
  cuda::synchronize(kGpu);
  CHECK(cusim::products().calls == before.calls + 3 * 9 + 2);
  CHECK(cusim::products().heuristics == before.heuristics + 1);
  CHECK(cusim::products().last_compute == CUBLAS_COMPUTE_32F);
}

TEST_CASE("child: nothing is measured", "[.]") {
  const Array a = noise({3, 41}).to(kGpu), b = noise({41, 7}, kFloat32, 2).to(kGpu);
  matmul(a, b);
  cuda::synchronize(kGpu);
  REQUIRE(cusim::products().calls == 1);
  REQUIRE(cusim::products().last_algorithm == 0);
}

TEST_CASE("HERO_CUDA_AUTOTUNE=0 takes the first algorithm") {
  ::setenv("HERO_CUDA_AUTOTUNE", "0", 1);
  Child child("child: nothing is measured", "");
  CHECK(child.wait() == 0);
  ::unsetenv("HERO_CUDA_AUTOTUNE");
}

TEST_CASE("the CPU's cuBLASLt refuses what the real one refuses") {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulPreference_t wishes = nullptr;
  cublasLtMatmulPreferenceCreate(&wishes);
  const auto ask = [&](cudaDataType_t type, uint64_t rows, int64_t step) {
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatrixLayoutCreate(&a, type, rows, 3, step);
    cublasLtMatrixLayoutCreate(&b, type, 3, 4, 3);
    cublasLtMatrixLayoutCreate(&d, type, 2, 4, 2);
    cublasLtMatmulHeuristicResult_t results[8];
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, wishes, 8, results, &count);
    CHECK(count == (status == CUBLAS_STATUS_SUCCESS ? 1 : 0));  // no workspace: the first only
    float values[12] = {}, alpha = 1.0f;
    const cublasStatus_t ran = cublasLtMatmul(handle, desc, &alpha, values, a, values, b, &alpha,
                                              values, d, values, d, nullptr, nullptr, 0, nullptr);
    CHECK(ran == CUBLAS_STATUS_INVALID_VALUE);  // no algorithm was named
    for (cublasLtMatrixLayout_t x : {a, b, d}) cublasLtMatrixLayoutDestroy(x);
    return status;
  };
  CHECK(ask(CUDA_R_32F, 2, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(ask(CUDA_R_32F, 2, 1) == CUBLAS_STATUS_INVALID_VALUE);  // columns would overlap
  CHECK(ask(CUDA_R_32F, 3, 3) == CUBLAS_STATUS_INVALID_VALUE);  // not the result's rows
  CHECK(ask(CUDA_R_64F, 2, 2) == CUBLAS_STATUS_NOT_SUPPORTED);  // adds up in float
  const int64_t wrong_size = 1;
  CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &wrong_size,
                                       sizeof(wrong_size)) == CUBLAS_STATUS_INVALID_VALUE);
  const auto with = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    CHECK(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)) ==
          CUBLAS_STATUS_SUCCESS);
    return ask(CUDA_R_32F, 2, 2);
  };
  float numbers[8] = {};
  const void* const address = numbers;
  CHECK(with(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{2048}) == CUBLAS_STATUS_INVALID_VALUE);
  const uint32_t sums = CUBLASLT_EPILOGUE_BGRADB, slope = CUBLASLT_EPILOGUE_DGELU;
  CHECK(with(CUBLASLT_MATMUL_DESC_EPILOGUE, sums) == CUBLAS_STATUS_INVALID_VALUE);  // to where?
  CHECK(with(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(with(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F}) == CUBLAS_STATUS_SUCCESS);
  CHECK(with(CUBLASLT_MATMUL_DESC_EPILOGUE, slope) == CUBLAS_STATUS_INVALID_VALUE);  // of what?
  CHECK(with(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{12}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(with(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, address) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(with(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{8}) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceDestroy(wishes);
  cublasLtMatmulDescDestroy(desc);
  CHECK(std::string(cublasLtGetStatusName(CUBLAS_STATUS_EXECUTION_FAILED)) ==
        "CUBLAS_STATUS_EXECUTION_FAILED");
}

#endif
