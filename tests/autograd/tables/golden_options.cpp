// The operators of golden/ops_further whose options came later, and losses at their kinks.
#include "autograd/tables/golden.h"

#include <hero/autograd/ops.h>

namespace hero::golden {

namespace {

void add_places_of_maxima(Table& table) {
  table["adaptive_max_pool1d_with_indices"] = [](const Call& c) -> Results {
    return both(adaptive_max_pool1d_with_indices(c.x(), c.dims("output")[0]));
  };
  table["adaptive_max_pool2d_with_indices"] = [](const Call& c) -> Results {
    return both(adaptive_max_pool2d_with_indices(c.x(), c.pair("output", 1)));
  };
  table["adaptive_max_pool3d_with_indices"] = [](const Call& c) -> Results {
    const Dims size = c.dims("output");
    return both(adaptive_max_pool3d_with_indices(c.x(), {size[0], size[1], size[2]}));
  };
  table["max_unpool3d"] = [](const Call& c) -> Results {
    const Dims size = c.dims("output");
    return {max_unpool3d(c.x(), c.in("index"), {size[0], size[1], size[2]})};
  };
}

// What does not depend on signs or on the choice of a basis.
Results projections(const SVD& found) {
  const int64_t inner = found.s.size(-1);
  const Tensor u = slice(found.u, -1, 0, inner), vh = slice(found.vh, -2, 0, inner);
  const Tensor left = slice(found.u, -1, inner).detach();
  const Tensor right = slice(found.vh, -2, inner).detach();
  return {found.s, matmul(u * unsqueeze(sin(found.s), -2), vh), matmul(left, left.t()),
          matmul(right.t(), right)};
}

}  // namespace

void add_options(Table& table) {
  add_places_of_maxima(table);
  table["instance_norm_running"] = [](const Call& c) -> Results {
    const Tensor mean = c.in("mean").clone(), var = c.in("var").clone();
    const Tensor y = instance_norm(c.x(), mean, var,
                                   {.weight = c.in("weight"),
                                    .bias = c.in("bias"),
                                    .use_input_stats = c.get<bool>("own", true),
                                    .momentum = 0.3});
    return {y, mean, var};
  };
  table["margin_ranking_loss"] = [](const Call& c) -> Results {
    return {
        margin_ranking_loss(c.in("a"), c.in("b"), c.in("y"), c.number("margin"), c.reduction())};
  };
  table["eigh_upper"] = [](const Call& c) -> Results {
    return {eigvalsh(triu(c.x()) + 9.0 * tril(c.x(), -1), Triangle::upper)};
  };
  table["solve_right"] = [](const Call& c) -> Results {
    return {solve(c.in("a"), c.in("b"), SolveSide::right)};
  };
  table["svd_full"] = [](const Call& c) -> Results {
    return projections(svd(c.x(), {.full_matrices = true}));
  };
}

}  // namespace hero::golden
