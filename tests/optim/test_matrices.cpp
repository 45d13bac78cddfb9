// Muon and Adafactor, which look at whole matrices, and EMA: against PyTorch, resumed, refused.
#include <cmath>
#include <fstream>

#include "optim/factory.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/golden_dir.h"

#include <hero/autograd/ops.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/optim/optim.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using hero_test::json;

namespace {

Tensor by_formula(const json& shape, int n, DType dtype, const std::function<double(int, int)>& f) {
  Shape sizes;
  for (const auto& size : shape) sizes.push_back(size.get<int64_t>());
  std::vector<double> values;
  for (int i = 0; i < sizes.numel(); ++i) values.push_back(f(n, i));
  return Tensor(Array::from(values, sizes).to(dtype), true);
}

double first_value_of(int n, int i) { return std::sin(1.0 + n + 3.0 * i); }

// The parameters of a run of golden/make_optim_matrices.py, and its gradients.
struct MatrixRun {
  MatrixRun(const json& run, DType dtype) : shapes(run.at("shapes")) {
    for (size_t n = 0; n < shapes.size(); ++n) {
      params.push_back(by_formula(shapes[n], static_cast<int>(n), dtype, first_value_of));
    }
  }
  void give_gradients(int t) const {
    for (size_t n = 0; n < shapes.size(); ++n) {
      const auto gradient = [t](int k, int i) {
        return std::cos(1.0 + k + 2.0 * i + 5.0 * t) * (1.0 + 0.1 * i);
      };
      const DType dtype = params[n].dtype();
      params[n].set_grad(by_formula(shapes[n], static_cast<int>(n), dtype, gradient).detach());
    }
  }
  json shapes;
  std::vector<Tensor> params;
};

optim::MuonOptions muon_options(json given) {
  optim::MuonOptions options;
  if (given.contains("adjust_lr_fn")) {
    options.match_rms_adamw = given.at("adjust_lr_fn") == "match_rms_adamw";
    options.spectral_unclamped = given.at("adjust_lr_fn") == "spectral_unclamped";
    given.erase("adjust_lr_fn");
  }
  hero_test::read_options(options, given);
  return options;
}

optim::AdafactorOptions adafactor_options(json given) {
  optim::AdafactorOptions options;
  if (given.contains("eps")) {
    options.eps1 = given.at("eps")[0].get<double>();
    options.eps2 = given.at("eps")[1].get<double>();
    given.erase("eps");
  }
  hero_test::read_options(options, given);
  return options;
}

// Follows a run; every step goes through a state dict into a new optimizer: nothing may be lost.
template <class O, class Options>
void follow(const json& run, const Options& options, DType dtype, double allowed) {
  const MatrixRun problem(run, dtype);
  auto optimizer = std::make_unique<O>(problem.params, options);
  for (size_t t = 0; t < run.at("params").size(); ++t) {
    problem.give_gradients(static_cast<int>(t));
    optimizer->step();
    for (size_t n = 0; n < problem.params.size(); ++n) {
      INFO("step " << t << ", parameter " << n);
      const auto expected = run.at("params")[t][n].get<std::vector<double>>();
      const auto found = problem.params[n].template to_vector<double>();
      REQUIRE(found.size() == expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        CHECK(std::fabs(found[i] - expected[i]) <= allowed);
      }
    }
    auto next = std::make_unique<O>(problem.params);
    next->load_state_dict(optimizer->state_dict());
    optimizer = std::move(next);
  }
}

json matrices_golden() {
  std::ifstream file(test::golden_dir() + "/optim_matrices.json");
  REQUIRE(file.good());
  return json::parse(file);
}

}  // namespace

TEST_CASE("muon steps as PyTorch's does where its products are of float64") {
  const json golden = matrices_golden();  // which the loop does not keep alive by itself
  for (const json& run : golden.at("muon")) {
    // 1e-12: the polynomial multiplies rounding by up to 3.4^5 in five steps
    follow<optim::Muon>(run, muon_options(run.at("options")), kFloat64, 1e-12);
    follow<optim::Muon>(run, muon_options(run.at("options")), kFloat32, 1e-4);
  }
}

TEST_CASE("adafactor steps as PyTorch's does") {
  const json golden = matrices_golden();  // which the loop does not keep alive by itself
  for (const json& run : golden.at("adafactor")) {
    follow<optim::Adafactor>(run, adafactor_options(run.at("options")), kFloat64, 1e-13);
  }
}

TEST_CASE("adafactor remembers rows and columns alone") {
  const Tensor matrix = ones({40, 30}, {.requires_grad = true});
  const Tensor vector = ones({7}, {.requires_grad = true});
  optim::Adafactor adafactor({matrix, vector});
  for (const Tensor& p : {matrix, vector}) p.set_grad(ones_like(p).detach());
  adafactor.step();
  int64_t elements = 0;
  for (const auto& [name, array] : adafactor.state_dict()) {
    if (name.ends_with("_var") || name.ends_with("variance")) elements += array.numel();
  }
  CHECK(elements == 40 + 30 + 7);
}

TEST_CASE("muon and adafactor keep float32 states for halves, and round once") {
  const MatrixRun problem(matrices_golden().at("muon")[0], kBFloat16);
  problem.give_gradients(0);
  optim::Muon muon(problem.params);
  optim::Adafactor adafactor(problem.params);
  for (optim::Optimizer* each :
       {static_cast<optim::Optimizer*>(&muon), static_cast<optim::Optimizer*>(&adafactor)}) {
    each->step();
    for (const auto& [name, array] : each->state_dict()) {
      if (name.starts_with("state.") && array.ndim() == 2) CHECK(array.dtype() == kFloat32);
    }
  }
  CHECK(problem.params[0].dtype() == kBFloat16);
}

TEST_CASE("muon takes matrices alone, and both refuse shards that nobody else holds") {
  const Tensor vector = ones({4}, {.requires_grad = true});
  CHECK_THROWS_WITH(optim::Muon({vector}), ContainsSubstring("parameter 0 is [4], no matrix"));
  const Tensor matrix = ones({4, 3}, {.requires_grad = true});
  optim::Muon muon({matrix});
  optim::Adafactor adafactor({matrix});
  Partition part{{4, 3}, {}, 0, nullptr};
  set_part(matrix, Array::ones({6}), std::make_shared<const Partition>(part));
  matrix.set_grad(ones({6}));
  CHECK_THROWS_WITH(muon.step(), ContainsSubstring("muon: parameter 0 is a shard of [4, 3]"));
  CHECK_THROWS_WITH(adafactor.step(), ContainsSubstring("adafactor: parameter 0 is a shard"));
  CHECK_THROWS_WITH(
      optim::Muon({vector.reshape({2, 2}).detach().requires_grad_()}, {.ns_steps = 100}),
      ContainsSubstring("ns_steps"));
  CHECK_THROWS_WITH(optim::Adafactor({vector}, {.beta2_decay = 0.5}),
                    ContainsSubstring("beta2_decay"));
}

TEST_CASE("an average of parameters is the sum that its definition says") {
  const Tensor p = tensor({1.0, -2.0}, {.dtype = kFloat64, .requires_grad = true});
  const bool warmup = GENERATE(false, true);
  optim::EMA ema({p}, {.decay = 0.9, .warmup = warmup});
  CHECK_THROWS_WITH(ema.swap(), ContainsSubstring("no averages before the first step()"));
  std::vector<double> expected;
  for (int t = 0; t < 20; ++t) {
    {
      const NoGrad no_grad;
      p.add_(0.25 * t);
    }
    ema.step();
    const auto now = p.to_vector<double>();
    const double decay = warmup ? std::min(0.9, (1.0 + t) / (10.0 + t)) : 0.9;
    if (t == 0) expected = now;
    for (size_t i = 0; i < 2; ++i) expected[i] = decay * expected[i] + (1.0 - decay) * now[i];
    optim::EMA next({p}, {.decay = 0.5});  // a new one goes on
    next.load_state_dict(ema.state_dict());
    ema.load_state_dict(next.state_dict());
  }
  const auto before = p.to_vector<double>();
  {
    const optim::EMA::Scope averaged(ema);
    // 1e-14: 20 roundings of numbers below 50
    for (size_t i = 0; i < 2; ++i) CHECK(std::fabs(p.to_vector<double>()[i] - expected[i]) < 1e-13);
    CHECK_THROWS_WITH(ema.step(), ContainsSubstring("call swap() before step()"));
  }
  CHECK(p.to_vector<double>() == before);
  ema.step();
}

TEST_CASE("an equal average is the mean of all steps, as stochastic weight averaging takes it") {
  const Tensor p = full({2}, 1.0, {.dtype = kFloat64, .requires_grad = true});
  optim::EMA average({p}, {.equal = true});
  double sum = 0.0;
  for (int step = 1; step <= 9; ++step) {
    {
      const NoGrad no_grad;
      p.fill_(std::sqrt(step));
    }
    sum += std::sqrt(step);
    average.step();
    const optim::EMA::Scope averaged(average);
    CHECK(std::fabs(p[1].item() - sum / step) < 1e-14);
  }
}

TEST_CASE("an average of halves is kept in float32") {
  const Tensor p = full({4}, 1.0, {.dtype = kBFloat16, .requires_grad = true});
  optim::EMA ema({p}, {.decay = 0.999});
  ema.step();
  {
    const NoGrad no_grad;
    p.fill_(2.0);
  }
  for (int i = 0; i < 3; ++i) ema.step();
  const Array average = ema.state_dict().back().array;
  CHECK(average.dtype() == kFloat32);
  // 1e-6: three steps of float32
  CHECK(std::fabs(average.to_vector<double>()[0] - (2.0 - std::pow(0.999, 3))) < 1e-6);
}

TEST_CASE("adafactor forgets a large gradient altogether when the newest one is all that counts") {
  const Tensor after = ones({2}, {.requires_grad = true});
  const Tensor alone = ones({2}, {.requires_grad = true});
  optim::Adafactor forgets({after}, {.beta2_decay = 0.0}), knows_one({alone}, {.beta2_decay = 0.0});
  after.set_grad(full({2}, 1e3));
  forgets.step();
  after.set_data(alone.array().clone());
  for (const Tensor& p : {after, alone}) p.set_grad(tensor({1e-3f, 2e-3f}));
  forgets.step();
  knows_one.step();
  // 1e6 + (1e-6 - 1e6) is 0 in float32, and both elements would be divided by eps1.
  CHECK(equal(after, alone));
}
