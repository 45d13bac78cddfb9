// What a program that is linked with the basic kernels alone computes, as chapters 1 to 6 are, and
// what it says where it lacks a kernel.
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/functions/linalg.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/functions/reductions.h>

using namespace hero;
using namespace hero::core;

static int wrong = 0;

static void expect_values(const char* what, const Array& got, const std::vector<double>& right) {
  if (got.to_vector<double>() == right) return;
  std::printf("%s is not what it should be\n", what);
  ++wrong;
}

static void expect_error(const std::string& what, const std::function<void()>& call) {
  const std::string right =
      "cpu: no kernel of " + what +
      " in this program, which is linked without hero_cpu_kernels, as chapters 1 to 6 are; for "
      "these call cmake -DHERO_ALL_KERNELS=ON build/release and build again";
  std::string said = "no error";
  try {
    call();
  } catch (const Error& error) {
    said = error.what();
  }
  if (said == right) return;
  std::printf("%s: not '%s', but: %s\n", what.c_str(), right.c_str(), said.c_str());
  ++wrong;
}

int main() {
  const Array a = Array::from<double>({2, 1, 0, 4}, {2, 2}),
              b = Array::from<double>({4, 8}, {2, 1});
  expect_values("a sum", reduce(ReduceKind::sum, a, {0}), {2, 5});
  expect_values("a product", matmul(a, b), {16, 32});
  expect_values("a solution", solve(a, b), {1, 2});
  expect_values("a solution by least squares",
                lstsq(Array::from<double>({2, 0, 0, 4, 0, 0}, {3, 2}),
                      Array::from<double>({4, 8, 1}, {3, 1})),
                {2, 2});
  expect_error("Softmax", [&] { softmax(SoftmaxKind::softmax, a, 1); });
  expect_error("FactorSVD", [&] { svd(a); });
  expect_error("Sort", [&] { sort(a); });
  expect_error("products of halves", [&] { matmul(a.to(kBFloat16), b.to(kBFloat16)); });
  return wrong;
}
