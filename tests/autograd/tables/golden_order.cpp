// The operators of golden/ops_further that reduce, run along a dimension or multiply.
#include "autograd/tables/golden.h"

#include <hero/autograd/ops.h>

namespace hero::golden {

namespace {

int64_t dim_of(const Call& c) { return c.get<int64_t>("dim", -1); }

QuantileOptions quantile_options(const Call& c) {
  QuantileOptions options{.keepdim = c.keepdim()};
  if (c.has("dim")) options.dim = c.integer("dim");
  const std::map<std::string, Quantile> ways = {{"linear", Quantile::linear},
                                                {"lower", Quantile::lower},
                                                {"higher", Quantile::higher},
                                                {"midpoint", Quantile::midpoint},
                                                {"nearest", Quantile::nearest}};
  options.interpolation = ways.at(c.get<std::string>("how", "linear"));
  return options;
}

void add_order(Table& table) {
  table["median_all"] = [](const Call& c) -> Results { return {median(c.x())}; };
  table["nanmedian_all"] = [](const Call& c) -> Results { return {nanmedian(c.x())}; };
  table["median"] = [](const Call& c) { return both(median(c.x(), dim_of(c), c.keepdim())); };
  table["nanmedian"] = [](const Call& c) { return both(nanmedian(c.x(), dim_of(c), c.keepdim())); };
  table["kthvalue"] = [](const Call& c) {
    return both(kthvalue(c.x(), c.integer("k"), dim_of(c), c.keepdim()));
  };
  table["mode"] = [](const Call& c) -> Results { return {mode(c.x(), dim_of(c)).values}; };
  table["quantile"] = [](const Call& c) -> Results {
    return {quantile(c.x(), c.in("q"), quantile_options(c))};
  };
  table["nanquantile"] = [](const Call& c) -> Results {
    return {nanquantile(c.x(), c.in("q"), quantile_options(c))};
  };
  table["cummax"] = [](const Call& c) { return both(cummax(c.x(), dim_of(c))); };
  table["cummin"] = [](const Call& c) { return both(cummin(c.x(), dim_of(c))); };
  table["logcumsumexp"] = [](const Call& c) -> Results { return {logcumsumexp(c.x(), dim_of(c))}; };
  table["diff"] = [](const Call& c) -> Results { return {diff(c.x(), c.integer("n"), dim_of(c))}; };
}

void add_without_nan(Table& table) {
  table["nansum"] = [](const Call& c) -> Results {
    return {nansum(c.x(), c.dims("dim"), c.keepdim())};
  };
  table["nanmean"] = [](const Call& c) -> Results {
    return {nanmean(c.x(), c.dims("dim"), c.keepdim())};
  };
  table["count_nonzero"] = [](const Call& c) -> Results {
    return {count_nonzero(c.x(), c.dims("dim"))};
  };
  table["aminmax"] = [](const Call& c) -> Results {
    const MinMax result = c.has("dim") ? aminmax(c.x(), c.integer("dim")) : aminmax(c.x());
    return {result.min, result.max};
  };
  table["var_mean"] = [](const Call& c) -> Results {
    const VarMean result = var_mean(c.x(), {.dims = c.dims("dim")});
    return {result.var, result.mean};
  };
  table["dist"] = [](const Call& c) -> Results { return {c.x().dist(c.in("y"), c.number("p"))}; };
}

void add_matrix_products(Table& table) {
  using Summed = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AddProduct&);
  const std::map<std::string, Summed> summed = {
      {"addmm", addmm}, {"addmv", addmv}, {"addr", addr}, {"baddbmm", baddbmm}, {"addbmm", addbmm}};
  for (const auto& [name, f] : summed) {
    table[name] = [f = f](const Call& c) -> Results {
      return {f(c.in("i"), c.in("a"), c.in("b"),
                {.beta = c.number("beta"), .alpha = c.number("alpha")})};
    };
  }
  using Product = Tensor (*)(const Tensor&, const Tensor&);
  for (const auto& [name, f] :
       std::map<std::string, Product>{{"mv", mv}, {"inner", inner}, {"kron", kron}}) {
    table[name] = [f = f](const Call& c) -> Results { return {f(c.in("a"), c.in("b"))}; };
  }
  table["tensordot"] = [](const Call& c) -> Results {
    const Json& dims = c.attr("dims");
    if (!dims.is_array()) return {tensordot(c.in("a"), c.in("b"), dims.get<int64_t>())};
    return {tensordot(c.in("a"), c.in("b"), Dims(dims[0].get<std::vector<int64_t>>()),
                      Dims(dims[1].get<std::vector<int64_t>>()))};
  };
  table["cross"] = [](const Call& c) -> Results {
    return {cross(c.in("a"), c.in("b"), c.integer("dim"))};
  };
  table["multi_dot"] = [](const Call& c) -> Results { return {multi_dot(c.operands())}; };
  table["cdist"] = [](const Call& c) -> Results {
    const bool infinite = c.attr("p").is_string();
    const double p = infinite ? std::numeric_limits<double>::infinity() : c.number("p");
    return {cdist(c.in("a"), c.in("b"), p)};
  };
  table["matrix_power"] = [](const Call& c) -> Results {
    return {matrix_power(c.x(), c.integer("n"))};
  };
  table["matrix_exp"] = [](const Call& c) -> Results { return {matrix_exp(c.x())}; };
}

}  // namespace

void add_orders(Table& table) {
  add_order(table);
  add_without_nan(table);
  add_matrix_products(table);
}

}  // namespace hero::golden
