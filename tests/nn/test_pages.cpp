// The code on docs/guides/modules.md and docs/guides/training.md, run.
#include <cstdio>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/container.h>
#include <hero/nn/data/data.h>
#include <hero/nn/functional_call.h>
#include <hero/nn/linear.h>
#include <hero/nn/summary.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace pages {

// [snippet: module]
struct MLP : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 784, 512);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 512, 10);
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x.flatten(1)))); }
};
// [end]

// [snippet: own layer]
struct Scale : nn::Module {
  explicit Scale(int64_t width, bool shifted = true)
      : weight(parameter("weight", {width}, nn::init::ones())),
        bias(shifted ? parameter("bias", {width}, nn::init::zeros()) : no_parameter("bias")),
        calls(buffer("calls", {}, nn::init::zeros(), kInt64)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = x * weight;
    return bias.defined() ? y + bias : y;
  }
  Tensor &weight, &bias, &calls;
};
// [end]

}  // namespace pages

TEST_CASE("the code on the page of modules runs") {
  using pages::MLP;
  const hero_test::TempDir dir;
  const std::string path = dir / "mlp.safetensors";
  pages::Scale scale(3);
  CHECK(scale(ones({2, 3})).shape() == Shape{2, 3});
  CHECK(scale.state_dict().size() == 3);
  CHECK(pages::Scale(3, false).parameters().size() == 1);

  // [snippet: use]
  manual_seed(1);
  MLP model;
  model.fc1.requires_grad_(false);  // train the head only
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3});
  const Tensor loss = cross_entropy(model(rand({64, 28, 28})), randint(0, 10, {64}));
  loss.backward();
  adamw.step();
  model.save(path);
  // [end]
  CHECK_FALSE(model.fc1.weight.grad().defined());

  manual_seed(1);
  std::unique_ptr<MLP> planned;
  {
    const nn::DeviceScope scope(kMeta);
    planned = std::make_unique<MLP>();  // shapes, no bytes
  }
  const std::string table = nn::summary(*planned, {64, 784});
  planned->materialize();  // the numbers that building it here would have given
  CHECK(hero::test::same(planned->fc1.weight.array(), model.fc1.weight.array()));
  CHECK(table.find("401,920") != std::string::npos);

  // [snippet: hooks]
  double largest = 0.0;
  HookHandle watch = model.fc1.register_forward_hook(
      [&](nn::Module&, const nn::Tensors& /*inputs*/, const nn::Tensors& outputs) {
        largest = std::max(largest, amax(abs(outputs[0])).item());
      });
  model(rand({1, 28, 28}));
  watch.remove();
  // [end]
  CHECK(largest > 0.0);
}

TEST_CASE("the steps of an inner loop on the page of modules are differentiated") {
  manual_seed(1);
  nn::Linear model(3, 1);
  const Tensor x = randn({8, 3}), y = randn({8, 1});
  std::vector<Tensor> fast = model.parameters();
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = mse_loss(nn::functional_call(model, fast, x), y);
    const std::vector<Tensor> g = grad({loss}, fast, {.create_graph = true});
    for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - 0.1 * g[i];
  }
  mse_loss(nn::functional_call(model, fast, x), y).backward();  // into the gradients of model
  CHECK(model.weight.grad().defined());
  CHECK(mse_loss(nn::functional_call(model, fast, x), y).item() < mse_loss(model(x), y).item());
}

namespace {

// [snippet: run]
int train(const std::string& folder, int64_t epochs, nn::Resume resume) {
  using namespace hero::nn::data;
  manual_seed(1);
  const TensorDataset points({rand({256, 2}), randint(0, 2, {256})});
  DataLoader loader(points, {.batch_size = 64, .shuffle = true, .seed = 7, .workers = 1});
  nn::Sequential model{nn::Linear(2, 16), nn::Linear(16, 2)};
  optim::Adam adam(model.parameters(), {.lr = 1e-2});

  nn::Checkpointer checkpoint(folder, {.keep = 2});
  checkpoint.track("model", model);
  checkpoint.track("optimizer", adam);
  checkpoint.track("loader", loader);
  int64_t step = checkpoint.resume(resume).value_or(0);
  nn::MetricsOptions from;
  if (resume != nn::Resume::no) from.resumed_step = step;
  nn::MetricsWriter metrics(folder, from);
  nn::StopSignal stop;
  nn::Progress progress({.total = epochs * loader.size(), .start = step});

  while (step < epochs * loader.size()) {
    for (const auto& [x, y] : loader) {
      adam.zero_grad();
      const Tensor loss = cross_entropy(model(x), y);
      loss.backward();
      adam.step();
      ++step;
      metrics.write(step, {{"train/loss", loss.item()}});
      progress.update(step, {{"loss", loss.item()}});
      if (stop.requested()) {
        checkpoint.save(step);
        return stop.exit_code();
      }
    }
    checkpoint.save(step);
  }
  return 0;
}
// [end]

}  // namespace

TEST_CASE("the training program on the page of training runs, and resumes") {
  const hero_test::TempDir dir;
  CHECK(train(dir / "run", 2, nn::Resume::no) == 0);
  CHECK(train(dir / "run", 3, nn::Resume::newest) == 0);
  CHECK(nn::Checkpointer(dir / "run").steps() == std::vector<int64_t>{8, 12});
}
