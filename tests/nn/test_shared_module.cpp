// One module that several threads call, forward and backward. Where gradients are compared all
// numbers are small and whole, so that their sums are exact in any order.
#include "support/arrays.h"
#include "support/catch.h"
#include "support/on_threads.h"

#include <hero/nn/container.h>
#include <hero/nn/dropout.h>
#include <hero/nn/gpt.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>
#include <hero/nn/rotary.h>

using namespace hero;
using hero::test::on_threads;

namespace {

constexpr int kThreads = 4;

struct MLP : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 12, 40);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 40, 3, {.bias = false});
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

void make_whole(nn::Module& module) {
  const NoGrad no_grad;
  for (const Tensor& p : module.parameters()) p.copy_(randint(-2, 3, p.shape()).to(kFloat32));
}

Tensor input(int thread) {
  manual_seed(100 + static_cast<uint64_t>(thread));
  return randint(-2, 3, {8, 12}).to(kFloat32);
}

nn::GPTConfig small_gpt() {
  return {.vocab_size = 17,
          .block_size = 16,
          .n_layer = 2,
          .n_head = 2,
          .n_embd = 8,
          .dropout = 0.5,
          .rotary = true};
}

}  // namespace

TEST_CASE("threads call one module and get what one thread gets", "[threads]") {
  manual_seed(1);
  MLP model;
  std::vector<Tensor> alone;
  for (int i = 0; i < kThreads; ++i) alone.push_back(model(input(i)).detach());
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int i) {
    const Tensor x = input(i);
    for (int round = 0; round < 200; ++round) {
      if (!equal(model(x), alone[static_cast<size_t>(i)])) ++wrong;  // recorded, and let go
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("threads run backward through one module and the gradients are the sums", "[threads]") {
  manual_seed(2);
  MLP model;
  make_whole(model);
  constexpr int kRounds = 100;
  std::vector<Tensor> expected;
  for (const Tensor& p : model.parameters()) expected.push_back(zeros(p.shape()));
  for (int i = 0; i < kThreads; ++i) {
    const std::vector<Tensor> grads = grad({sum(model(input(i)))}, model.parameters());
    for (size_t k = 0; k < grads.size(); ++k) expected[k].add_(grads[k] * kRounds);
  }
  on_threads(kThreads, [&](int i) {
    const Tensor x = input(i);
    for (int round = 0; round < kRounds; ++round) sum(model(x)).backward();
  });
  const auto parameters = model.parameters();
  for (size_t k = 0; k < parameters.size(); ++k) CHECK(equal(parameters[k].grad(), expected[k]));
}

TEST_CASE("hooks of a module run on each thread that calls it", "[threads]") {
  MLP model;
  std::atomic<int> forward = 0, backward = 0;
  model.fc1.register_forward_hook(
      [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { ++forward; });
  model.fc1.register_full_backward_hook(
      [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { ++backward; });
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < 20; ++round) sum(model(input(i))).backward();
  });
  CHECK(forward == 20 * kThreads);
  CHECK(backward == 20 * kThreads);
}

TEST_CASE("the table of a rotary embedding grows under several threads", "[threads]") {
  nn::RotaryEmbedding rotary(8);
  manual_seed(3);
  const Tensor x = rand({2, 4, 8});
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int i) {
    for (int64_t offset = i; offset < 120; offset += 7) {
      if (!equal(rotary(x, offset), nn::rotary_embedding(x, offset))) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a GPT in training generates on several threads as alone, and stays in training",
          "[threads]") {
  manual_seed(4);
  nn::GPT gpt(small_gpt());
  const Tensor prompt = tensor({1, 2, 3});
  const auto text = [&](int i) {
    return gpt.generate(prompt, {.max_new_tokens = 8, .seed = static_cast<uint64_t>(i)})
        .to_vector<int64_t>();
  };
  std::vector<std::vector<int64_t>> alone;
  for (int i = 0; i < kThreads; ++i) alone.push_back(text(i));
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < 3; ++round) {
      if (text(i) != alone[static_cast<size_t>(i)]) ++wrong;
      if (!gpt.training()) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(gpt.training());
}

TEST_CASE("generate leaves the modes of its children as they were") {
  manual_seed(5);
  nn::GPT gpt(small_gpt());
  gpt.transformer.ln_f.eval();
  gpt.generate(tensor({1, 2}), {.max_new_tokens = 2});
  CHECK(gpt.training());
  CHECK_FALSE(gpt.transformer.ln_f.training());
}

TEST_CASE("an EvalScope is evaluation for its thread alone", "[threads]") {
  nn::Dropout dropout(0.5);
  const Tensor x = ones({256});
  std::atomic<int> wrong = 0;
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < 50; ++round) {
      if (i % 2 == 0) {
        const nn::EvalScope eval;
        if (dropout.training() || !equal(dropout(x), x)) ++wrong;
      } else if (!dropout.training() || equal(dropout(x), x)) {
        ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a mode changes while threads call the module", "[threads]") {
  nn::Sequential net{nn::Linear(4, 4), nn::Dropout(0.5)};
  on_threads(kThreads, [&](int i) {
    for (int round = 0; round < 100; ++round) {
      if (i == 0) {
        net.train(round % 2 == 0);
      } else {
        net(ones({2, 4}));
      }
    }
  });
  net.eval();
  CHECK(equal(net(ones({2, 4})), net(ones({2, 4}))));
}

TEST_CASE("batch norm counts the batches of all threads", "[threads]") {
  nn::BatchNorm1d norm(3);
  constexpr int kRounds = 50;
  on_threads(kThreads, [&](int i) {
    manual_seed(static_cast<uint64_t>(i));
    for (int round = 0; round < kRounds; ++round) sum(norm(full({4, 3}, 2.0))).backward();
  });
  CHECK(norm.num_batches_tracked.item<int64_t>() == kRounds * kThreads);
  // Every batch has mean 2 and variance 0: after n of them the mean is 2 (1 - 0.9^n).
  CHECK(allclose(norm.running_mean, full({3}, 2.0)));
  CHECK(allclose(norm.running_var, zeros({3})));
  CHECK(equal(norm.bias.grad(), full({3}, 4.0 * kRounds * kThreads)));
}
