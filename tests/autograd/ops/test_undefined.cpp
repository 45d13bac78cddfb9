// What operations say of undefined tensors: their own name and that of the argument.
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::StartsWith;
using namespace hero;

TEST_CASE("an undefined argument is named together with the operation") {
  const Tensor none, x = ones({2, 2}), at = zeros({2, 2}, kInt64);
  const auto says = [](const std::string& text) { return StartsWith(text + " is undefined"); };
  CHECK_THROWS_WITH(index(none, {at}), says("index: x"));
  CHECK_THROWS_WITH(index(x, {at, none}), says("index: tensor 1 of the list"));
  CHECK_THROWS_WITH(index_put(x, {none}, x), says("index_put: tensor 0 of the list"));
  CHECK_THROWS_WITH(x[none], says("index: an index"));
  CHECK_THROWS_WITH(none.t(), says("t: x"));
  CHECK_THROWS_WITH(x({Slice(), none}), says("index: an index"));
  CHECK_THROWS_WITH(masked_select(x, none), says("masked_select: mask"));
  CHECK_THROWS_WITH(gather(x, 0, none), says("gather: index"));
  CHECK_THROWS_WITH(scatter(x, 0, at, none), says("scatter: src"));
  CHECK_THROWS_WITH(where(none, x, x), says("where: condition"));
  CHECK_THROWS_WITH(where(x > 0, x, none), says("where: b"));
  CHECK_THROWS_WITH(cat({x, none}), says("cat: tensor 1 of the list"));
  CHECK_THROWS_WITH(einsum("ij,jk->ik", {none, x}), says("einsum: tensor 0 of the list"));
  CHECK_THROWS_WITH(matmul(x, none), says("matmul: b"));
  CHECK_THROWS_WITH(linear(x, none), says("linear: weight"));
  CHECK_THROWS_WITH(embedding(none, at), says("embedding: weight"));
  CHECK_THROWS_WITH(sum(none), says("sum: x"));
  CHECK_THROWS_WITH(softmax(none, 0), says("softmax: x"));
  CHECK_THROWS_WITH(cross_entropy(x, none), says("cross_entropy: target"));
  CHECK_THROWS_WITH(mse_loss(x, none), says("mse_loss: y"));
  CHECK_THROWS_WITH(layer_norm(none, {2}), says("layer_norm: x"));
  CHECK_THROWS_WITH(conv2d(x, none), says("conv2d: weight"));
  CHECK_THROWS_WITH(max_pool2d(none, 2), says("max_pool2d: x"));
  CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, none),
                    says("scaled_dot_product_attention: v"));
  CHECK_THROWS_WITH(lstm_cell(x, {x, x}, {none, x, {}, {}}), says("lstm_cell: w_ih"));
}

TEST_CASE("an undefined argument is named by operations made of several, and by those that look") {
  const Tensor none, x = ones({2, 2}), at = zeros({2}, kInt64);
  const auto says = [](const std::string& text) { return StartsWith(text + " is undefined"); };
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {{"ravel", ravel},
                                                        {"atleast_1d", atleast_1d},
                                                        {"atleast_2d", atleast_2d},
                                                        {"atleast_3d", atleast_3d},
                                                        {"fliplr", fliplr},
                                                        {"flipud", flipud},
                                                        {"trace", trace},
                                                        {"square", square},
                                                        {"frac", frac},
                                                        {"signbit", signbit},
                                                        {"isnan", isnan},
                                                        {"isposinf", isposinf},
                                                        {"isfinite", isfinite},
                                                        {"logical_not", logical_not},
                                                        {"bitwise_not", bitwise_not},
                                                        {"contiguous", contiguous},
                                                        {"msort", msort},
                                                        {"median", median},
                                                        {"nanmedian", nanmedian},
                                                        {"max", max},
                                                        {"min", min},
                                                        {"nonzero", nonzero},
                                                        {"zeros_like", zeros_like},
                                                        {"ones_like", ones_like},
                                                        {"empty_like", empty_like},
                                                        {"rand_like", rand_like},
                                                        {"randn_like", randn_like}};
  for (const auto& [name, function] : functions) {
    CHECK_THROWS_WITH(function(none), says(std::string(name) + ": x"));
  }
  CHECK_THROWS_WITH(full_like(none, 1), says("full_like: x"));
  CHECK_THROWS_WITH(view_as(x, none), says("view_as: other"));
  CHECK_THROWS_WITH(expand_as(none, x), says("expand_as: x"));
  CHECK_THROWS_WITH(reshape_as(x, none), says("reshape_as: other"));
  CHECK_THROWS_WITH(unsqueeze(none, 0), says("unsqueeze: x"));
  CHECK_THROWS_WITH(sum_to(none, {1}), says("sum_to: x"));
  CHECK_THROWS_WITH(split(none, 1), says("split: x"));
  CHECK_THROWS_WITH(tril(none), says("tril: x"));
  CHECK_THROWS_WITH(sort(none), says("sort: x"));
  CHECK_THROWS_WITH(all(none), says("all: x"));
  CHECK_THROWS_WITH(copysign(none, 1.0), says("copysign: a"));
  CHECK_THROWS_WITH(xlogy(none, 2.0), says("xlogy: x"));
  CHECK_THROWS_WITH(xlogy(2.0, none), says("xlogy: y"));
  CHECK_THROWS_WITH(index_copy(x, 0, at, none), says("index_copy: src"));
  CHECK_THROWS_WITH(addmv(none, x, x), says("addmv: input"));
  CHECK_THROWS_WITH(mv(x, none), says("mv: v"));
  CHECK_THROWS_WITH(solve(x, none), says("solve: b"));
  CHECK_THROWS_WITH(vstack({none, x}), says("vstack: tensor 0 of the list"));
  CHECK_THROWS_WITH(conv3d(x, none), says("conv3d: weight"));
  CHECK_THROWS_WITH(max_pool3d(none, 2), says("max_pool3d: x"));
  CHECK_THROWS_WITH(dropout2d(none), says("dropout2d: x"));
  CHECK_THROWS_WITH(matrix_exp(none), says("matrix_exp: a"));
}
