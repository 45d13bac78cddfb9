// Whole training steps as graphs: the bits of eager training.
#include <algorithm>
#include <memory>

#include "cuda/gpu.h"

#include <hero/autograd/autograd.h>
#include <hero/core/functions/map.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/cuda/graph.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr double kMaxNorm = 18.0;

// A small network with dropout, clipping, its optimizer and its data, the same at every making.
template <class Optimizer>
struct Training {
  nn::Linear first{6, 10}, second{10, 3};
  std::unique_ptr<Optimizer> optimizer;

  template <class Options>
  explicit Training(const Options& options) {
    manual_seed(7);
    std::vector<Tensor> parameters;
    for (nn::Linear* layer : {&first, &second}) {
      for (const Tensor& p : layer->parameters()) {
        p.set_data(randn(p.shape()).array().to(kGpu));
        parameters.push_back(p);
      }
    }
    optimizer = std::make_unique<Optimizer>(parameters, options);
    manual_seed(21);
  }
  std::vector<Array> step(const std::vector<Array>& in) {
    const Tensor hidden = dropout(relu(first(Tensor(in[0]))), 0.25, true);
    const Tensor loss = square(second(hidden) - Tensor(in[1])).mean();
    loss.backward();
    const Tensor norm = optim::clip_grad_norm(optimizer->parameters(), kMaxNorm);
    optimizer->step();
    optimizer->zero_grad();
    return {loss.array(), norm.array()};
  }
  // All bits that training leaves behind: losses, then norms, some below the limit and some above
  // it, then parameters.
  std::vector<float> run(const std::function<std::vector<Array>(const std::vector<Array>&)>& call) {
    std::vector<float> bits;
    std::vector<double> norms;
    for (int i = 0; i < 6; ++i) {
      const auto seed = static_cast<uint64_t>(i);
      Array x = Array::empty({5, 6}), y = Array::empty({5, 3});
      fill_normal(std::span<float>(x.data<float>(), 30), {seed, 1}, 0);
      fill_normal(std::span<float>(y.data<float>(), 15), {seed, 2}, 0);
      optimizer->set_lr(0.9 * optimizer->lr());  // a schedule, between the calls
      const std::vector<Array> out = call({x.to(kGpu), y.to(kGpu)});
      bits.push_back(out[0].item<float>());
      norms.push_back(out[1].item());
    }
    CHECK(*std::min_element(norms.begin(), norms.end()) < kMaxNorm);
    CHECK(*std::max_element(norms.begin(), norms.end()) > kMaxNorm);
    for (const double norm : norms) bits.push_back(static_cast<float>(norm));
    for (nn::Linear* layer : {&first, &second}) {
      for (const Tensor& p : layer->parameters()) {
        for (const float v : p.array().to(kCpu).to_vector<float>()) bits.push_back(v);
      }
    }
    for (const auto& [name, state] : optimizer->state_dict()) {  // steps and options among them
      const Array values = state.to(kCpu).to(kFloat32);
      for (const float v : values.to_vector<float>()) bits.push_back(v);
    }
    return bits;
  }
};

template <class Optimizer, class Options>
void check_same_bits(const Options& options, bool recapture) {
  Training<Optimizer> eager(options);
  const std::vector<float> expected =
      eager.run([&](const std::vector<Array>& in) { return eager.step(in); });
  Training<Optimizer> graphed(options);
  cuda::GraphedStep step([&](const std::vector<Array>& in) { return graphed.step(in); },
                         {.recapture = recapture});
  CHECK(graphed.run([&](const std::vector<Array>& in) { return step(in); }) == expected);
  CHECK(step.captured());
  CHECK(step.nodes() > 20);
  CHECK(expected[0] != expected[5]);
}

}  // namespace

TEST_CASE("a captured training step has the bits of eager training, with a rate that changes") {
  HERO_NEEDS_GPU();
  for (const bool recapture : {false, true}) {
    CAPTURE(recapture);
    check_same_bits<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9}, recapture);
    check_same_bits<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}, recapture);
    check_same_bits<optim::Adam>(optim::AdamOptions{.lr = 0.01, .amsgrad = true}, recapture);
    check_same_bits<optim::NAdam>(optim::NAdamOptions{.lr = 0.01}, recapture);
  }
}

TEST_CASE("groups of one optimizer keep their coefficients apart in a replay") {
  HERO_NEEDS_GPU();
  const auto train = [](bool graphed) {
    manual_seed(4);
    const Tensor a = Tensor(randn({9}).array().to(kGpu)).requires_grad_();
    const Tensor b = Tensor(randn({70}).array().to(kGpu)).requires_grad_();
    optim::AdamW adamw({{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.1, .weight_decay = 0.3}}});
    const auto call = [&](const std::vector<Array>& in) {
      adamw.zero_grad();
      ((a * Tensor(in[0])).sum() + square(b).sum()).backward();
      adamw.step();
      return std::vector<Array>{};
    };
    cuda::GraphedStep step(call);
    for (int i = 0; i < 6; ++i) {
      adamw.set_lr(0.1 / (1.0 + i), 1);
      const std::vector<Array> in{Array::full({}, 1.0 + i, kFloat32, kGpu)};
      graphed ? step(in) : call(in);
    }
    std::vector<float> bits = a.array().to(kCpu).to_vector<float>();
    for (const float v : b.array().to(kCpu).to_vector<float>()) bits.push_back(v);
    return bits;
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a replay refuses what it would not repeat") {
  HERO_NEEDS_GPU();
  const std::vector<Array> in{Array::ones({5, 6}), Array::ones({5, 3})};
  {  // a schedule inside of the call
    Training<optim::AdamW> training(optim::AdamWOptions{.lr = 0.01});
    cuda::GraphedStep step([&](const std::vector<Array>& given) {
      training.optimizer->set_lr(0.9 * training.optimizer->lr());
      return training.step(given);
    });
    step(in);
    step(in);
    CHECK_THROWS_WITH(step(in), ContainsSubstring("the call changes options of its optimizer"));
  }
  {  // groups that were one update part
    const auto parameter = [] { return Tensor(Array::ones({4}, kFloat32, kGpu)).requires_grad_(); };
    const Tensor a = parameter(), b = parameter();
    optim::AdamW adamw({{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.1}}});
    cuda::GraphedStep step([&](const std::vector<Array>&) {
      adamw.zero_grad();
      (square(a) + square(b)).sum().backward();
      adamw.step();
      return std::vector<Array>{};
    });
    for (int i = 0; i < 4; ++i) step({});
    adamw.set_lr(0.01, 1);
    CHECK_THROWS_WITH(step({}), ContainsSubstring("updates are others than those"));
  }
  {  // a parameter of the host
    const Tensor a = ones({4}).requires_grad_();
    optim::AdamW adamw({a}, {.lr = 0.1});
    cuda::GraphedStep step([&](const std::vector<Array>&) {
      a.set_grad(ones({4}));
      adamw.step();
      return std::vector<Array>{};
    });
    CHECK_THROWS_WITH(step({}), ContainsSubstring("adamw: a graphed step repeats") &&
                                    ContainsSubstring("is on cpu; use recapture"));
    CHECK(a.array().to_vector<float>() == std::vector<float>(4, 1.0f));
  }
  {  // a number of the call's own
    Training<optim::AdamW> training(optim::AdamWOptions{.lr = 0.01});
    double count = 1.0;
    cuda::GraphedStep step([&](const std::vector<Array>& given) {
      count += 1.0;
      return training.step({core::map<core::kernels::Mul>(given[0], Scalar(count)), given[1]});
    });
    step(in);
    step(in);
    CHECK_THROWS_WITH(step(in), ContainsSubstring("takes a number from the host that changes"));
  }
}
