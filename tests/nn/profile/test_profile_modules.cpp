// What a profiler sees of modules, optimizers and loaders.
#include "support/catch.h"

#include <hero/autograd/profile/profiler.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace {

struct Net : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 8, 16);
  nn::Linear& second = add<nn::Linear>("second", 16, 4);
  Tensor forward(const Tensor& x) override { return second(relu(first(x))); }
};

/// Calls of all rows that have this module and phase.
int64_t calls_in(const Profile& profile, const std::string& module, ProfilePhase phase) {
  int64_t calls = 0;
  for (const ProfileRow& row : profile.rows) {
    calls += row.module == module && row.phase == phase ? row.calls : 0;
  }
  return calls;
}

int64_t parts(const Profile& profile, const std::string& name) {
  int64_t calls = 0;
  for (const ProfileRow& row : profile.rows) {
    calls += row.name == name && row.phase == ProfilePhase::part ? row.calls : 0;
  }
  return calls;
}

void train(Net& net, optim::Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    sum(net(ones({3, 8}))).backward();
    optimizer.step();
  }
}

}  // namespace

TEST_CASE("forward and backward of a layer are found under its path") {
  Net net;
  Profiler profiler;
  sum(net(ones({3, 8}))).backward();
  const Profile p = profiler.profile();
  for (const std::string path : {"first", "second"}) {
    CHECK(calls_in(p, path, ProfilePhase::forward) == 1);
    CHECK(calls_in(p, path, ProfilePhase::backward) == 1);
  }
}

TEST_CASE("a profiler ends by itself behind its last step") {
  Net net;
  optim::AdamW adamw(net.parameters(), {.lr = 1e-3});
  Profiler profiler({.steps = 2});
  train(net, adamw, 1);
  CHECK(profiler.running());
  train(net, adamw, 3);
  CHECK_FALSE(profiler.running());
  const Profile p = profiler.profile();
  CHECK(p.steps == 2);
  CHECK(parts(p, "optimizer step") == 2);
  CHECK(parts(p, "backward") == 2);
}

TEST_CASE("a step of an optimizer around another is one step") {
  Net net;
  optim::MasterWeights<optim::SGD> sgd(net.parameters(), {.lr = 1e-3});
  Profiler profiler;
  train(net, sgd, 3);
  optim::LBFGS lbfgs(net.parameters(), {.max_iter = 2});
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Tensor loss = sum(square(net(ones({3, 8}))));
    loss.backward();
    return loss;
  });
  CHECK(profiler.profile().steps == 4);
}

TEST_CASE("waiting for a loader's batches is a part, with workers and without") {
  for (const int workers : {0, 2}) {
    const nn::data::TensorDataset data({ones({8, 2}), ones({8})});
    nn::data::DataLoader loader(data, {.batch_size = 2, .workers = workers});
    Profiler profiler;
    int batches = 0;
    for (const auto& [points, labels] : loader)
      batches += labels.numel() == 2 && points.ndim() == 2;
    CHECK(batches == 4);
    CHECK(parts(profiler.profile(), "data") == 4);
  }
}

TEST_CASE("flops of a gpt's profile are those of its modules together") {
  manual_seed(1);
  nn::GPT gpt({.vocab_size = 16, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8});
  const Tensor tokens = zeros({2, 8}, {.dtype = kInt64});
  Profiler profiler;
  gpt.loss(tokens, tokens).backward();
  const Profile p = profiler.profile();
  const auto flops = [](const std::vector<ProfileRow>& rows) {
    int64_t all = 0;
    for (const ProfileRow& row : rows) all += row.flops;
    return all;
  };
  CHECK(flops(p.sums(ProfileBy::module, 1)) == flops(p.rows));
  CHECK(flops(p.sums(ProfileBy::operation)) == flops(p.rows));
  int64_t blocks = 0;
  for (const ProfileRow& row : p.sums(ProfileBy::module, 3)) {
    blocks += row.module.starts_with("transformer.h.") ? row.flops : 0;
  }
  // of 2 blocks 12 C^2 weights each, multiplied by 16 tokens three times: forward and both factors
  CHECK(blocks > 3 * 2 * 16 * 2 * 12 * 8 * 8);
}
