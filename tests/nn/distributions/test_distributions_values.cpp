// Distributions and those made of others: values and gradients of torch.distributions.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "support/catch.h"
#include "support/golden_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions_composed.h>
#include <hero/nn/distributions_continuous.h>
#include <hero/nn/distributions_discrete.h>

using namespace hero;
using namespace hero::distributions;
using nlohmann::json;

namespace {

using Params = std::map<std::string, Tensor>;
using Made = std::shared_ptr<const Distribution>;

void append(const json& values, size_t depth, Shape& shape, std::vector<double>& flat) {
  if (!values.is_array()) {
    flat.push_back(values.get<double>());
    return;
  }
  if (static_cast<size_t>(shape.size()) == depth) {
    shape.push_back(static_cast<int64_t>(values.size()));
  }
  for (const json& part : values) append(part, depth + 1, shape, flat);
}

Tensor tensor_of(const json& values, DType dtype, bool wants_grad = false) {
  Shape shape;
  std::vector<double> flat;
  append(values, 0, shape, flat);
  const Tensor result(Array::from(flat, shape).to(dtype));
  return result.requires_grad_(wants_grad);
}

double number_of(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const double infinity = std::numeric_limits<double>::infinity();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return value == "inf" ? infinity : -infinity;
}

ProbsOrLogits odds_of(const Params& p) {
  const auto get = [&](const char* name) { return p.contains(name) ? p.at(name) : Tensor(); };
  return {.probs = get("probs"), .logits = get("logits")};
}

Made independent(const Params& p) {
  return std::make_shared<Independent>(Normal(p.at("loc"), p.at("scale")), 1);
}

template <class D>
Made of_locations(const Params& p) {
  return std::make_shared<D>(p.at("loc"), p.at("scale"));
}

template <class D>
Made of_odds(const Params& p) {
  return std::make_shared<D>(odds_of(p));
}

template <class D>
Made of_trials(const Params& p) {
  return std::make_shared<D>(p.at("total_count").item<int64_t>(), odds_of(p));
}

template <class D>
std::function<Made(const Params&)> of_two(const char* first, const char* second) {
  return [=](const Params& p) { return std::make_shared<D>(p.at(first), p.at(second)); };
}

template <class D>
Made relaxed(const Params& p) {
  return std::make_shared<D>(p.at("temperature"), odds_of(p));
}

CovarianceMatrix spread_of(const Params& p) {
  CovarianceMatrix spread;
  if (p.contains("covariance_matrix")) spread.covariance_matrix = p.at("covariance_matrix");
  if (p.contains("precision_matrix")) spread.precision_matrix = p.at("precision_matrix");
  if (p.contains("scale_tril")) spread.scale_tril = p.at("scale_tril");
  return spread;
}

Made multivariate(const Params& p) {
  return std::make_shared<MultivariateNormal>(p.at("loc"), spread_of(p));
}

Made squashed(const Params& p) {
  const Tensor one = full({}, 1.0, p.at("loc").dtype()), stretch = full({}, -2.0, one.dtype());
  return std::make_shared<TransformedDistribution>(
      Independent(Normal(p.at("loc"), p.at("scale")), 1), TanhTransform(),
      AffineTransform(one, stretch));
}

Made falling(const Params& p) {
  const Tensor one = full({}, 1.0, p.at("loc").dtype()), stretch = full({}, -2.0, one.dtype());
  return std::make_shared<TransformedDistribution>(Gumbel(p.at("loc"), p.at("scale")),
                                                   AffineTransform(one, stretch), ExpTransform());
}

Made sigmoid_of(const Params& p) {
  return std::make_shared<TransformedDistribution>(Laplace(p.at("loc"), p.at("scale")),
                                                   SigmoidTransform());
}

Made mixture(const Params& p) {
  return std::make_shared<MixtureSameFamily>(Categorical({.logits = p.at("logits")}),
                                             Normal(p.at("loc"), p.at("scale")));
}

Made mixture_of_vectors(const Params& p) {
  return std::make_shared<MixtureSameFamily>(Categorical({.logits = p.at("logits")}),
                                             independent(p));
}

const std::map<std::string, std::function<Made(const Params&)>> kMakers = {
    {"Normal", of_locations<Normal>},
    {"Laplace", of_locations<Laplace>},
    {"Gumbel", of_locations<Gumbel>},
    {"Cauchy", of_locations<Cauchy>},
    {"LogNormal", of_locations<LogNormal>},
    {"LogisticNormal", of_locations<LogisticNormal>},
    {"Uniform",
     [](const Params& p) -> Made { return std::make_shared<Uniform>(p.at("low"), p.at("high")); }},
    {"Exponential",
     [](const Params& p) -> Made { return std::make_shared<Exponential>(p.at("rate")); }},
    {"HalfNormal",
     [](const Params& p) -> Made { return std::make_shared<HalfNormal>(p.at("scale")); }},
    {"Gamma",
     [](const Params& p) -> Made {
       return std::make_shared<Gamma>(p.at("concentration"), p.at("rate"));
     }},
    {"Chi2", [](const Params& p) -> Made { return std::make_shared<Chi2>(p.at("df")); }},
    {"StudentT",
     [](const Params& p) -> Made {
       return std::make_shared<StudentT>(p.at("df"), p.at("loc"), p.at("scale"));
     }},
    {"Beta",
     [](const Params& p) -> Made {
       return std::make_shared<Beta>(p.at("concentration1"), p.at("concentration0"));
     }},
    {"Dirichlet",
     [](const Params& p) -> Made { return std::make_shared<Dirichlet>(p.at("concentration")); }},
    {"MultivariateNormal", multivariate},
    {"Poisson", [](const Params& p) -> Made { return std::make_shared<Poisson>(p.at("rate")); }},
    {"Geometric", of_odds<Geometric>},
    {"OneHotCategorical", of_odds<OneHotCategorical>},
    {"Binomial", of_trials<Binomial>},
    {"Multinomial", of_trials<Multinomial>},
    {"Weibull", of_two<Weibull>("scale", "concentration")},
    {"Pareto", of_two<Pareto>("scale", "alpha")},
    {"GeneralizedPareto",
     [](const Params& p) -> Made {
       return std::make_shared<GeneralizedPareto>(p.at("loc"), p.at("scale"),
                                                  p.at("concentration"));
     }},
    {"HalfCauchy",
     [](const Params& p) -> Made { return std::make_shared<HalfCauchy>(p.at("scale")); }},
    {"Kumaraswamy", of_two<Kumaraswamy>("concentration1", "concentration0")},
    {"InverseGamma", of_two<InverseGamma>("concentration", "rate")},
    {"FisherSnedecor", of_two<FisherSnedecor>("df1", "df2")},
    {"NegativeBinomial",
     [](const Params& p) -> Made {
       return std::make_shared<NegativeBinomial>(p.at("total_count"), odds_of(p));
     }},
    {"ContinuousBernoulli", of_odds<ContinuousBernoulli>},
    {"Bernoulli", of_odds<Bernoulli>},
    {"RelaxedBernoulli", relaxed<RelaxedBernoulli>},
    {"RelaxedOneHotCategorical", relaxed<RelaxedOneHotCategorical>},
    {"Wishart",
     [](const Params& p) -> Made { return std::make_shared<Wishart>(p.at("df"), spread_of(p)); }},
    {"correlations",
     [](const Params& p) -> Made {
       return std::make_shared<LKJCholesky>(3, p.at("concentration"));
     }},
    {"independent", independent},
    {"mixture", mixture},
    {"mixture_of_vectors", mixture_of_vectors},
    {"squashed", squashed},
    {"falling", falling},
    {"sigmoid", sigmoid_of},
};

Made made_of(const json& c, const char* which, DType dtype, Params& params) {
  for (const auto& [key, values] : c.at(which).items()) {
    const bool wants_grad = std::string(which) == "params" && key != "total_count";
    params[key] = tensor_of(values, dtype, wants_grad);
  }
  return kMakers.at(c.at("kind").get<std::string>())(params);
}

void check_values(const Tensor& found, const json& expected, double tolerance) {
  const std::vector<double> values = found.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = number_of(expected[i]);
    INFO(values[i] << " and " << wanted << " at " << i << ", apart " << values[i] - wanted);
    const bool both_nan = std::isnan(wanted) && std::isnan(values[i]);
    CHECK((both_nan || values[i] == wanted ||
           std::fabs(values[i] - wanted) <= tolerance * (1.0 + std::fabs(wanted))));
  }
}

// The largest number of a case: sums of terms as large as it lose its digits.
double largest_of(const json& values) {
  double largest = 0.0;
  for (const json& part : values.flatten()) {
    largest = std::max(largest, std::fabs(part.get<double>()));
  }
  return largest;
}

void check_case(const json& c, DType dtype, double accuracy) {
  const double largest = std::max(largest_of(c.at("params")), largest_of(c.at("value")));
  const double tolerance = accuracy * std::max(1.0, largest / 100.0);
  Params params, others;
  const Made p = made_of(c, "params", dtype, params);
  const json& expected = c.at("out");
  std::map<std::string, Tensor> out;
  const Tensor value = tensor_of(c.at("value"), dtype);
  out["log_prob"] = p->log_prob(value);
  if (expected.contains("entropy")) out["entropy"] = p->entropy();
  if (expected.contains("mean")) out["mean"] = p->mean();
  if (expected.contains("variance")) out["variance"] = p->variance();
  if (expected.contains("cdf")) out["cdf"] = p->cdf(value);
  if (expected.contains("icdf")) out["icdf"] = p->icdf(tensor_of(c.at("probability"), dtype));
  if (c.contains("others")) {
    const Made q = made_of(c, "others", dtype, others);
    out["kl"] = kl_divergence(*p, *q);
    out["kl_back"] = kl_divergence(*q, *p);
  }
  const std::string kind = c.at("kind");
  const bool gamma = kind == "Gamma" || kind == "Chi2" || kind == "InverseGamma";
  // PyTorch's trigamma of float64 is good to about 1e-10.
  const bool trigamma = gamma || kind == "StudentT" || kind == "Beta" || kind == "Dirichlet" ||
                        kind == "Kumaraswamy" || kind == "Wishart";
  Tensor total = zeros({}, {.dtype = dtype});
  for (const auto& [name, values] : out) {
    INFO(name);
    CHECK(values.dtype() == dtype);
    CHECK(values.shape() == Shape(c.at("shapes").at(name).get<std::vector<int64_t>>()));
    check_values(values, expected.at(name), tolerance);
    if (gamma && name == "cdf") continue;  // PyTorch has no gradient there
    total = total + sum(where(isfinite(values), values, 0));
  }
  total.backward();
  for (const auto& [name, values] : c.at("grad").items()) {
    INFO("gradient of " << name);
    check_values(params.at(name).grad(), values, trigamma ? std::max(tolerance, 1e-8) : tolerance);
  }
}

}  // namespace

TEST_CASE("further distributions have PyTorch's values, divergences and gradients") {
  std::ifstream file(test::golden_dir() + "/distributions_more.json");
  REQUIRE(file.good());
  const json all = json::parse(file).at("cases");
  CHECK(all.size() == 31);
  for (const json& c : all) {
    INFO(c.at("kind") << " of " << c.at("params").dump());
    check_case(c, kFloat64, 1e-12);
    if (c.dump().find("e-") == std::string::npos) check_case(c, kFloat32, 2e-4);
  }
}

TEST_CASE("variances that are differences of moments are never negative") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor many = exp(linspace(0.0, 40.0, 4001, {.dtype = dtype})), one = ones_like(many);
    const Weibull weibull(one, many);
    const Kumaraswamy narrow(many, one), sharp(many, many);
    const VonMises mises(zeros_like(many), many);
    for (const Distribution* d : std::vector<const Distribution*>{&weibull, &narrow, &mises}) {
      CHECK(all(d->variance() >= 0.0).item<bool>());
      CHECK(all(isfinite(d->stddev())).item<bool>());
    }
    CHECK_FALSE(any(sharp.variance() < 0.0).item<bool>());  // its gammas may be out of range
  }
}

TEST_CASE("rarer distributions have PyTorch's values, divergences and gradients") {
  std::ifstream file(test::golden_dir() + "/distributions_further.json");
  REQUIRE(file.good());
  const json golden = json::parse(file), all = golden.at("cases");
  CHECK(all.size() == 18);
  for (const json& c : all) {
    INFO(c.at("kind") << " of " << c.at("params").dump());
    check_case(c, kFloat64, 1e-12);
    check_case(c, kFloat32, 2e-4);
  }
  // Every divergence that PyTorch has between eleven kinds, infinite ones too.
  const auto make = [&](const std::string& kind) {
    Params params;
    for (const auto& [key, values] : golden.at("three").at(kind).items()) {
      params[key] = tensor_of(values, kFloat64);
    }
    return kMakers.at(kind)(params);
  };
  CHECK(golden.at("pairs").size() == 59);
  for (const json& pair : golden.at("pairs")) {
    INFO(pair.at("p") << " from " << pair.at("q"));
    const Tensor found = kl_divergence(*make(pair.at("p")), *make(pair.at("q")));
    check_values(found, pair.at("kl"), 1e-12);
  }
}
