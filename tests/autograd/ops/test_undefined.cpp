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
