// The whole library on the GPU beside the CPU: every row of the op table, every reference case of
// operators, layers and optimizers. The tables are those of the CPU's tests; in this program
// check_rows() runs them on the device.
#include <cmath>

#include "autograd/tables/golden.h"
#include "autograd/tables/op_table.h"
#include "cuda/gpu.h"
#include "nn/golden/layer_golden.h"
#include "optim/more_golden.h"
#include "optim/trajectory.h"
#include "support/arrays.h"
#include "support/golden_dir.h"

#include <hero/autograd/graph/engine.h>

using namespace hero;
using namespace hero_test;

namespace hero::test {

namespace {

// How far a result may be from the CPU's in float64, as a part of its size: rounding units of the
// dtype in which it was computed. Rows have a few to a hundred roundings and condition numbers of
// up to some tens; operations composed of others round halves after each of them.
double tolerance(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return 512 * 0x1p-53;
    case kFloat32:
      return 512 * 0x1p-24;
    case kFloat16:
      return 8 * 0x1p-11;
    default:
      return 8 * 0x1p-8;
  }
}

// Outputs and gradients of a row; gradients that do not exist are left out.
Tensors results_of(const OpRow& row, const Tensors& inputs, const Made& made) {
  Tensors results = row.call.run(inputs), roots, seeds;
  for (size_t i = 0; row.differentiable && i < results.size(); ++i) {
    if (!results[i].requires_grad()) continue;
    roots.push_back(results[i]);
    seeds.emplace_back(laid_out(results[i].shape(), Layout::contiguous, {}, 99, made));
    seeds.back() = seeds.back().to(results[i].dtype());
  }
  if (roots.empty()) return results;
  for (const Tensor& g : grad(roots, inputs, {.grad_outputs = seeds, .allow_unused = true})) {
    if (g.defined()) results.push_back(g);
  }
  return results;
}

// The part by which `found` is off, by norms; infinite where what is not finite does not agree.
double distance(const Tensor& found, const Tensor& expected) {
  const auto a = found.to_vector<double>(), b = expected.to_vector<double>();
  double off = 0.0, size = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(b[i])) {
      const bool same = std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i];
      if (!same) return INFINITY;
      continue;
    }
    off += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  // What is near 0 as a whole has errors of the numbers it was made of, which are about 1.
  return std::sqrt(off) / std::max(1.0, std::sqrt(size));
}

// The inputs on the CPU in float64 with the values that they have in `dtype`.
Tensors reference_inputs(const OpRow& row, Layout layout, DType dtype) {
  Tensors inputs;
  for (const Tensor& input : inputs_for(row, layout, {dtype, kCpu})) {
    inputs.emplace_back(input.array().to(kFloat64), true);
  }
  return inputs;
}

// Whether the operation exists for the dtype at all.
bool exists_for(const OpRow& row, Layout layout, DType dtype) {
  if (dtype == kFloat64) return true;
  try {
    const Made made{dtype, kCpu};
    results_of(row, inputs_for(row, layout, made), made);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_parity(const OpRow& row, Layout layout, DType dtype) {
  INFO(row.name << ", " << text(layout) << ", " << name(dtype));
  const Tensors expected = results_of(row, reference_inputs(row, layout, dtype), {dtype, kCpu});
  const Made made{dtype, kGpu};
  Tensors found, again;
  REQUIRE_NOTHROW(found = results_of(row, inputs_for(row, layout, made), made));
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i << " of " << found.size());
    CHECK(found[i].device() == kGpu);
    CHECK(to_string(found[i].shape()) == to_string(expected[i].shape()));
    const bool exact = !is_floating(expected[i].dtype());
    CHECK(distance(found[i], expected[i]) <= (exact ? 0.0 : tolerance(dtype)));
  }
  if (layout != Layout::contiguous) return;
  REQUIRE_NOTHROW(again = results_of(row, inputs_for(row, layout, made), made));
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i << " of a second run");
    CHECK(same(again[i].array().to(kCpu), found[i].array().to(kCpu)));
  }
}

}  // namespace

void check_rows(const Rows& rows) {
  HERO_NEEDS_GPU();
  each_layout(rows, [](const OpRow& row, Layout layout) {
    check_parity(row, layout, kFloat64);
    if (layout == Layout::broadcast || layout == Layout::single) return;
    for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
      if (exists_for(row, layout, dtype)) check_parity(row, layout, dtype);
    }
  });
}

}  // namespace hero::test

namespace {

void check_operators(const std::string& folder) {
  using golden::Layout;
  const golden::Suite suite(hero::test::golden_dir() + folder);
  for (size_t i = 0; i < suite.size(); ++i) {
    for (const Layout layout : {Layout::as_stored, Layout::transposed}) {
      for (const std::string& line : suite.differences(i, layout, kGpu)) FAIL_CHECK(line);
    }
  }
  CHECK(suite.size() > 0);
}

}  // namespace

TEST_CASE("operators match their references on the GPU") {
  HERO_NEEDS_GPU();
  check_operators("/ops");
}

TEST_CASE("more operators match their references on the GPU") {
  HERO_NEEDS_GPU();
  check_operators("/ops_more");
}

TEST_CASE("operators beyond ops.h match their references on the GPU") {
  HERO_NEEDS_GPU();
  check_operators("/ops_further");
  check_operators("/ops_composed");
  check_operators("/ops_rare");
}

TEST_CASE("layers give PyTorch's outputs, gradients and state on the GPU") {
  HERO_NEEDS_GPU();
  hero::test::check_layers(kGpu);
}

// Each step runs every kernel that any step runs; over cusim more of them would take minutes.
#if defined(HERO_TEST_CUSIM)
constexpr size_t kSteps = 12;
#else
constexpr size_t kSteps = 1 << 20;
#endif

// In parts, which are processes of their own side by side: 15000 steps are waited for.
TEMPLATE_TEST_CASE_SIG("optimizers follow the reference trajectories on the GPU", "",
                       ((size_t part), part), 0, 1, 2, 3) {
  HERO_NEEDS_GPU();
  follow_all(kGpu, kSteps, part, 4);
}

TEST_CASE("lion and lamb follow NumPy on the GPU") {
  HERO_NEEDS_GPU();
  follow_lion_and_lamb(kGpu, kSteps);
}

TEST_CASE("lbfgs takes PyTorch's points on the GPU") {
  HERO_NEEDS_GPU();
  follow_lbfgs(kGpu);
}
