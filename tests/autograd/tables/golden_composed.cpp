// The operators of golden/ops_composed.
#include "autograd/tables/golden.h"

#include <hero/autograd/autograd.h>

namespace hero::golden {

namespace {

double power(const Call& c) { return std::stod(c.get<std::string>("p", "2")); }

void add_composed_functions(Table& table) {
  table["entr"] = [](const Call& c) -> Results { return {entr(c.x())}; };
  table["ndtr"] = [](const Call& c) -> Results { return {ndtr(c.x())}; };
  table["xlog1py"] = [](const Call& c) -> Results { return {xlog1py(c.in("a"), c.in("b"))}; };
  table["logaddexp2"] = [](const Call& c) -> Results { return {logaddexp2(c.in("a"), c.in("b"))}; };
  table["ldexp"] = [](const Call& c) -> Results { return {ldexp(c.in("a"), c.in("b"))}; };
}

void add_integrals(Table& table) {
  table["trapezoid"] = [](const Call& c) -> Results {
    const int64_t dim = c.get<int64_t>("dim", -1);
    if (c.in("x").defined()) return {trapezoid(c.in("y"), c.in("x"), dim)};
    return {trapezoid(c.in("y"), c.get("dx", 1.0), dim)};
  };
  table["cumulative_trapezoid"] = [](const Call& c) -> Results {
    const int64_t dim = c.get<int64_t>("dim", -1);
    if (c.in("x").defined()) return {cumulative_trapezoid(c.in("y"), c.in("x"), dim)};
    return {cumulative_trapezoid(c.in("y"), c.get("dx", 1.0), dim)};
  };
  table["cov"] = [](const Call& c) -> Results {
    const bool whole = !is_floating(c.x().dtype());
    const Tensor all =
        cov(c.x(),
            {.correction = c.get("correction", 1.0), .fweights = c.in("f"), .aweights = c.in("a")});
    return {whole ? all.to(kFloat64) : all};
  };
  table["corrcoef"] = [](const Call& c) -> Results { return {corrcoef(c.x())}; };
}

void add_composed_products(Table& table) {
  table["vecdot"] = [](const Call& c) -> Results {
    return {vecdot(c.in("a"), c.in("b"), c.get<int64_t>("dim", -1))};
  };
  table["pdist"] = [](const Call& c) -> Results { return {pdist(c.x(), power(c))}; };
  table["renorm"] = [](const Call& c) -> Results {
    return {renorm(c.x(), power(c), c.integer("dim"), c.number("maxnorm"))};
  };
  table["vector_norm"] = [](const Call& c) -> Results {
    return {vector_norm(c.x(), power(c), c.dims("dims"), c.keepdim())};
  };
  table["tensorinv"] = [](const Call& c) -> Results {
    return {tensorinv(c.in("a"), c.get<int64_t>("ind", 2))};
  };
  table["tensorsolve"] = [](const Call& c) -> Results {
    return {tensorsolve(c.in("a"), c.in("b"), c.dims("dims"))};
  };
  table["unravel_index"] = [](const Call& c) -> Results {
    return unravel_index(c.x(), Shape(c.attr("shape").get<std::vector<int64_t>>()));
  };
}

void add_distance_loss(Table& table) {
  table["triplet_distance"] = [](const Call& c) -> Results {
    const auto far = [](const Tensor& a, const Tensor& b) { return abs(a - b).sum(1); };
    return {triplet_margin_with_distance_loss(c.in("a"), c.in("b"), c.in("c"),
                                              {.distance_function = far,
                                               .margin = c.number("margin"),
                                               .swap = c.get("swap", false),
                                               .reduction = c.reduction()})};
  };
}

}  // namespace

void add_composed(Table& table) {
  add_composed_functions(table);
  add_integrals(table);
  add_composed_products(table);
  add_distance_loss(table);
}

}  // namespace hero::golden
