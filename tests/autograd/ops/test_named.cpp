// Errors of operations that are made of others: they name the one that was called, and the shapes
// that it was given.
#include <string>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/ops/detail/named.h>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using namespace hero;

TEST_CASE("pools of lines and volumes check their windows under their own names") {
  const Tensor line = ones({2, 3, 4}), image = ones({3, 4, 4}), volume = ones({3, 2, 4, 4});
  CHECK_THROWS_WITH(
      max_pool1d(line, 5),
      Equals("max_pool1d: a window of 5 does not fit into x [2, 3, 4] with padding 0"));
  CHECK_THROWS_WITH(avg_pool1d(line, 2, {.padding = 2}), StartsWith("avg_pool1d: padding 2 must"));
  CHECK_THROWS_WITH(avg_pool1d(line, 2, {.dilation = 2}), StartsWith("avg_pool1d: dilation is"));
  CHECK_THROWS_WITH(max_pool1d(line.to(kInt64), 2), StartsWith("max_pool1d: x is int64"));
  CHECK_THROWS_WITH(
      adaptive_avg_pool1d(line, -2),
      StartsWith("adaptive_avg_pool1d: output_size must not be negative, except -1: [-2]"));
  CHECK_THROWS_WITH(adaptive_max_pool1d(line.to(kInt64), 2),
                    StartsWith("adaptive_max_pool1d: x is"));
  CHECK_THROWS_WITH(adaptive_max_pool2d(image.to(kInt64), 2),
                    StartsWith("adaptive_max_pool2d: x is"));
  CHECK_THROWS_WITH(
      max_pool2d(image, 5),
      Equals("max_pool2d: a window of 5 does not fit into x [3, 4, 4] with padding 0"));
  CHECK_THROWS_WITH(
      max_pool3d(volume, {3, 1, 1}),
      Equals("max_pool3d: a window of 3 does not fit into x [3, 2, 4, 4] with padding 0"));
  CHECK_THROWS_WITH(avg_pool3d(volume, 2, {.stride = Triple{1, 0, 1}}),
                    StartsWith("avg_pool3d: kernel_size, stride and dilation must be positive"));
  CHECK_THROWS_WITH(avg_pool3d(volume.to(kInt64), 2), StartsWith("avg_pool3d: x is int64"));
  CHECK_THROWS_WITH(adaptive_avg_pool3d(volume, {1, -3, 1}),
                    ContainsSubstring("adaptive_avg_pool3d: output_size must not be negative, "
                                      "except -1: [1, -3, 1]"));
  CHECK_THROWS_WITH(adaptive_max_pool3d(volume, {-2, 1, 1}),
                    StartsWith("adaptive_max_pool3d: out"));
  CHECK_THROWS_WITH(
      lp_pool1d(line, 2.0, 7),
      Equals("lp_pool1d: a window of 7 does not fit into x [2, 3, 4] with padding 0"));
}

TEST_CASE("convolutions of lines tell the shapes of lines") {
  const Tensor x = ones({2, 3, 4}), w = ones({3, 5, 2});
  CHECK_THROWS_WITH(
      conv_transpose1d(x, ones({2, 5, 2})),
      Equals("conv_transpose1d: x [2, 3, 4] does not fit weight [2, 5, 2] with groups "
             "= 1; weight is [C, O / groups, K]"));
  CHECK_THROWS_WITH(
      conv_transpose1d(x, w, {}, {.padding = 3}),
      Equals("conv_transpose1d: the output would be empty: x [2, 3, 4], weight [3, 5, 2]"));
  CHECK_THROWS_WITH(conv_transpose1d(x.to(kInt64), w.to(kInt64)),
                    StartsWith("conv_transpose1d: x is"));
  CHECK_THROWS_WITH(conv_transpose1d(x, w, ones({2})), StartsWith("conv_transpose1d: bias has"));
  CHECK_THROWS_WITH(
      conv1d(x, ones({3, 2, 2})),
      Equals("conv1d: x [2, 3, 4] does not fit weight [3, 2, 2] with groups = 1; weight "
             "is [O, C / groups, K]"));
  CHECK_THROWS_WITH(conv1d(ones({3, 4}), ones({5, 2, 2})),
                    ContainsSubstring("; given x [3, 4], we"));
  CHECK_THROWS_WITH(conv2d_relu(x, w), StartsWith("conv2d_relu: "));
}

TEST_CASE("what an operation lets another one check is reported under its own name") {
  const Tensor a = ones({2, 3}), b = ones({4, 4}), at = zeros({2, 2}, kFloat32), none;
  CHECK_THROWS_WITH(embedding(a, at), StartsWith("embedding: index must be int64 or int32"));
  CHECK_THROWS_WITH(embedding(a, full({1}, 5)), StartsWith("embedding: index 5 at position [0]"));
  CHECK_THROWS_WITH(embedding_bag(a, full({1, 2}, 5)), StartsWith("embedding_bag: index 5"));
  CHECK_THROWS_WITH(mm(a, b), StartsWith("mm: inner sizes differ: [2, 3] x [4, 4]"));
  CHECK_THROWS_WITH(addmm(a, a, b), StartsWith("addmm: inner sizes differ"));
  CHECK_THROWS_WITH(inner(a, b), StartsWith("inner: sizes differ"));
  CHECK_THROWS_WITH(linear(a, ones({2, 3}, kFloat64)), StartsWith("linear: dtypes differ"));
  CHECK_THROWS_WITH(masked_fill(a, b > 0, 1), StartsWith("masked_fill: shapes do not broadcast"));
  CHECK_THROWS_WITH(addcdiv(a, b, b), StartsWith("addcdiv: shapes do not broadcast"));
  CHECK_THROWS_WITH(isclose(a, b),
                    StartsWith("isclose: shapes do not broadcast: [2, 3] and [4, 4]"));
  CHECK_THROWS_WITH(swapaxes(a, 0, 2), StartsWith("swapaxes: dim out of range: 2"));
  CHECK_THROWS_WITH(expand_as(a, b), StartsWith("expand_as: shape [2, 3] does not expand"));
  CHECK_THROWS_WITH(narrow(a, 2, 0, 1), StartsWith("narrow: dim out of range"));
  CHECK_THROWS_WITH(hstack({a, b}), StartsWith("hstack: shapes differ"));
  CHECK_THROWS_WITH(take(a, full({1}, 9)), StartsWith("take: index 9"));
  CHECK_THROWS_WITH(count_nonzero(a, {2}), StartsWith("count_nonzero: dim out of range"));
  CHECK_THROWS_WITH(logdet(a), StartsWith("logdet: "));
  CHECK_THROWS_WITH(pinv(a.to(kInt64)), StartsWith("pinv: matrix is int64"));
  CHECK_THROWS_WITH(normalize(a.to(kInt64)), StartsWith("normalize: array is int64"));
  CHECK_THROWS_WITH(instance_norm(ones({2, 3, 4}, kInt64)),
                    StartsWith("instance_norm: x is int64"));
  CHECK_THROWS_WITH(
      lt(none, 1),
      Equals("lt: a is undefined (default-made, moved from, or a gradient before backward())"));
  CHECK_THROWS_WITH(bitwise_and(none, 1), StartsWith("bitwise_and: a is undefined"));
}

TEST_CASE("an error that is named anew keeps its module and says what was given") {
  const std::string module = "mlp.fc2";
  const PlaceScope place(module);
  CHECK_THROWS_WITH(
      vdot(ones({2}), ones({3})),
      Equals("vdot: inner sizes differ: [1, 2] x [3, 1]; the last size of the first must "
             "be the last but one of the second; given a [2], b [3], in mlp.fc2"));
}

TEST_CASE("the outermost of named operations counts, and names end with their operation") {
  const Tensor a = ones({2, 3}), none;
  {
    const detail::Named outer("outer", {"a", a});
    CHECK_THROWS_WITH(
        vdot(ones({2}), ones({3})),
        Equals("outer: inner sizes differ: [1, 2] x [3, 1]; the last size of the first must "
               "be the last but one of the second; given a [2, 3]"));
    CHECK_THROWS_WITH(
        lt(none, 1),
        Equals(
            "outer: a is undefined (default-made, moved from, or a gradient before backward())"));
  }
  CHECK_THROWS_WITH(mm(a, a), StartsWith("mm: "));
}

TEST_CASE("einsum, lcm and put name themselves") {
  const Tensor a = ones({2, 3}), b = ones({3, 2});
  CHECK_THROWS_WITH(einsum("ij,jk->ik", {a, b.to(kInt64)}), StartsWith("einsum: dtypes differ"));
  CHECK_THROWS_WITH(lcm(a.to(kInt64), b.to(kInt64)), StartsWith("lcm: shapes do not broadcast"));
  CHECK_THROWS_WITH(put(a, tensor({9}), ones({1}), true), StartsWith("put: index 9"));
}
