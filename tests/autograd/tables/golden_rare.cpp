// The operators of golden/ops_rare.
#include "autograd/tables/golden.h"

#include <hero/autograd/autograd.h>

namespace hero::golden {

namespace {

template <class F>
void add_one(Table& table, const char* name, F f) {
  table[name] = [f](const Call& c) -> Results { return {f(c.x())}; };
}
template <class F>
void add_two(Table& table, const char* name, const char* first, const char* second, F f) {
  table[name] = [f, first, second](const Call& c) -> Results {
    return {f(c.in(first), c.in(second))};
  };
}

void add_rare_functions(Table& table) {
  for (const auto& [name, f] :
       std::map<const char*, Tensor (*)(const Tensor&)>{{"i0e", i0e},
                                                        {"i1", i1},
                                                        {"i1e", i1e},
                                                        {"bessel_j0", bessel_j0},
                                                        {"bessel_j1", bessel_j1},
                                                        {"bessel_y0", bessel_y0},
                                                        {"bessel_y1", bessel_y1},
                                                        {"erfcx", erfcx},
                                                        {"log_ndtr", log_ndtr},
                                                        {"ndtri", ndtri}}) {
    add_one(table, name, f);
  }
  using Pair = Tensor (*)(const Tensor&, const Tensor&);
  add_two(table, "gammainc", "a", "x", gammainc);
  add_two(table, "gammaincc", "a", "x", gammaincc);
  add_two(table, "zeta", "s", "q", static_cast<Pair>(zeta));
  add_two(table, "nextafter", "a", "b", nextafter);
  table["multigammaln"] = [](const Call& c) -> Results {
    return {multigammaln(c.x(), c.integer("p"))};
  };
  table["frexp"] = [](const Call& c) -> Results {
    const Frexp parts = frexp(c.x());
    return {parts.mantissa, parts.exponent.to(kInt64)};
  };
}

MatrixNorm norm_of(const Call& c) {
  const std::map<std::string, MatrixNorm> names{
      {"fro", MatrixNorm::fro},
      {"nuc", MatrixNorm::nuc},
      {"inf", MatrixNorm::inf},
      {"one", MatrixNorm::one},
      {"two", MatrixNorm::two},
      {"minus_inf", MatrixNorm::minus_inf},
      {"minus_one", MatrixNorm::minus_one},
      {"minus_two", MatrixNorm::minus_two},
  };
  return names.at(c.get<std::string>("which", "fro"));
}

void add_factors(Table& table) {
  table["lu"] = [](const Call& c) -> Results {
    const PLU found = lu(c.x());
    return {found.p, found.l, found.u};
  };
  table["lu_factor"] = [](const Call& c) -> Results {
    const LUFactors found = lu_factor(c.x());
    return {found.lu, found.pivots.to(kInt64)};
  };
  table["lu_solve"] = [](const Call& c) -> Results {
    const LUFactors found = lu_factor(c.x());
    return {lu_solve(found.lu, found.pivots, c.in("b"),
                     {.left = c.get("left", true), .adjoint = c.get("adjoint", false)})};
  };
  add_two(table, "householder", "x", "tau", householder_product);
  table["ormqr"] = [](const Call& c) -> Results {
    return {ormqr(c.x(), c.in("tau"), c.in("b"),
                  {.left = c.get("left", true), .transpose = c.get("transpose", false)})};
  };
  table["cond"] = [](const Call& c) -> Results { return {cond(c.x(), norm_of(c))}; };
  table["matrix_norm_all"] = [](const Call& c) -> Results {
    if (c.has("dims")) return {matrix_norm(c.x(), norm_of(c), c.dims("dims"), true)};
    return {matrix_norm(c.x(), norm_of(c))};
  };
  table["index_reduce"] = [](const Call& c) -> Results {
    const std::map<std::string, ScatterReduce> names{{"prod", ScatterReduce::prod},
                                                     {"mean", ScatterReduce::mean},
                                                     {"amax", ScatterReduce::amax},
                                                     {"amin", ScatterReduce::amin}};
    return {index_reduce(c.x(), 1, c.in("index"), c.in("src"),
                         names.at(c.get<std::string>("reduce", "")), c.get("include_self", true))};
  };
}

}  // namespace

void add_rare(Table& table) {
  add_rare_functions(table);
  add_factors(table);
}

}  // namespace hero::golden
