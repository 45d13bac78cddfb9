#include <limits>

#include "autograd/tables/golden.h"

namespace hero::golden {

namespace {

Operator reduction(Tensor (*f)(const Tensor&, const Dims&, bool)) {
  return [f](const Call& c) { return Results{f(c.x(), c.dims("dim"), c.keepdim())}; };
}

VarOptions var_options(const Call& c) {
  VarOptions options{
      .dims = c.dims("dim"), .keepdim = c.keepdim(), .unbiased = c.get("unbiased", true)};
  if (c.has("correction")) options.correction = c.number("correction");
  return options;
}

double order(const Call& c) {
  if (!c.has("p")) return 2.0;
  const Json& p = c.attr("p");
  if (p.is_number()) return p.get<double>();
  check(p == "inf" || p == "-inf", "golden: norm: p is ", p.dump());
  const double infinity = std::numeric_limits<double>::infinity();
  return p == "inf" ? infinity : -infinity;
}

void add_products(Table& table) {
  table["matmul"] = [](const Call& c) -> Results {
    Tensor a = c.in("a"), b = c.in("b");
    if (c.get("transpose_a", false)) a = a.t();
    if (c.get("transpose_b", false)) b = b.t();
    return {matmul(a, b)};
  };
  table["linear"] = [](const Call& c) -> Results {
    return {linear(c.x(), c.in("weight"), c.in("bias"))};
  };
  table["einsum"] = [](const Call& c) -> Results {
    return {einsum(c.attr("equation").get<std::string>(), c.operands())};
  };
  table["pairwise_sq_dist"] = [](const Call& c) -> Results {
    return {sum(square(unsqueeze(c.x(), 1) - unsqueeze(c.x(), 0)), {-1})};
  };
  table["strided_mul_sum"] = [](const Call& c) -> Results {
    const Tensor a = slice(c.in("a").t(), 0, 0, kEnd, 2);
    return {sum(a * slice(c.in("b"), 1, 1, kEnd, 2), c.dims("dim"))};
  };
}

}  // namespace

void add_reductions(Table& table) {
  table["sum"] = reduction(sum);
  table["mean"] = reduction(mean);
  table["prod"] = reduction(prod);
  table["logsumexp"] = reduction(logsumexp);
  table["amax"] = reduction(amax);
  table["amin"] = reduction(amin);
  table["var"] = [](const Call& c) -> Results { return {var(c.x(), var_options(c))}; };
  table["std"] = [](const Call& c) -> Results { return {std(c.x(), var_options(c))}; };
  table["max_dim"] = [](const Call& c) { return both(max(c.x(), c.integer("dim"), c.keepdim())); };
  table["min_dim"] = [](const Call& c) { return both(min(c.x(), c.integer("dim"), c.keepdim())); };
  table["max_all"] = [](const Call& c) -> Results { return {max(c.x())}; };
  table["argmax"] = [](const Call& c) -> Results {
    const Dims dims = c.dims("dim");
    const auto dim = dims.empty() ? std::nullopt : std::optional<int64_t>(dims[0]);
    return {argmax(c.x(), dim, c.keepdim())};
  };
  table["norm"] = [](const Call& c) -> Results {
    return {norm(c.x(), order(c), c.dims("dim"), c.keepdim())};
  };
  table["cumsum"] = [](const Call& c) -> Results { return {cumsum(c.x(), c.integer("dim"))}; };
  table["cumprod"] = [](const Call& c) -> Results { return {cumprod(c.x(), c.integer("dim"))}; };
  table["sort"] = [](const Call& c) {
    return both(sort(c.x(), c.get<int64_t>("dim", -1), c.get("descending", false)));
  };
  table["topk"] = [](const Call& c) {
    return both(topk(c.x(), c.integer("k"), c.get<int64_t>("dim", -1), c.get("largest", true)));
  };
  add_products(table);
}

}  // namespace hero::golden
