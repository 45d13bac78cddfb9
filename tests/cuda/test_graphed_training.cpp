// Whole training steps as graphs: the bits of eager training.
#include <algorithm>
#include <memory>

#include "cuda/gpu.h"

#include <hero/autograd/autograd.h>
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

TEST_CASE("a captured training step has the bits of eager training") {
  HERO_NEEDS_GPU();
  check_same_bits<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9}, false);
  check_same_bits<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9}, true);
}

TEST_CASE("corrections of Adam change from step to step: recapture has the bits, replay refuses") {
  HERO_NEEDS_GPU();
  const optim::AdamWOptions options{.lr = 0.01};
  check_same_bits<optim::AdamW>(options, true);
  Training<optim::AdamW> training(options);
  cuda::GraphedStep step([&](const std::vector<Array>& in) { return training.step(in); });
  const std::vector<Array> in{Array::ones({5, 6}), Array::ones({5, 3})};
  step(in);
  step(in);
  CHECK_THROWS_WITH(step(in),
                    ContainsSubstring("update takes a number from the host that changes"));
}
