// The right-hand sides of docs/coming_from.md, from libtorch, compiled and run:
// tests/scripts/test_pytorch_page looks for each of them here.
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace from_libtorch {

struct Net : nn::Module {
  nn::Linear& fc = add<nn::Linear>("fc", 4, 8);
  Tensor& w = parameter("w", {8}, nn::init::ones());
  Tensor forward(const Tensor& x) override { return fc(x) * w; }
};

struct Rows : nn::data::Dataset {
  int64_t size() const override { return 40; }
  nn::data::Example get(int64_t i) const override { return {full({4}, 1.0), tensor(i)}; }
};

}  // namespace from_libtorch

TEST_CASE("tensors on the page for people who know libtorch") {
  const std::vector<DType> dtypes = {kFloat32, kFloat64, kInt64, kUInt8};
  CHECK(item_size(dtypes[1]) == 8);
  CHECK(zeros({2, 3}, kInt64).dtype() == kInt64);
  const auto options = TensorOptions{.dtype = kFloat64, .requires_grad = true};
  CHECK(ones({2}, options).requires_grad());

  std::vector<float> memory = {1, 5, 2, 7, 0, 3};
  float* const data = memory.data();
  int ends = 0;
  const auto deleter = [&ends](void*) { ++ends; };
  CHECK(from_blob(data, {2, 3}, deleter).sum().item() == 18.0);
  CHECK(ends == 1);
  const Tensor x = from_blob(data, {2, 3}).clone();
  CHECK(x.data_ptr<float>()[1] == 5.0F);
  CHECK(x.accessor<float, 2>()[1][2] == 3.0F);
  CHECK(x.shape() == Shape{2, 3});
  CHECK((x.size(0) == 2 && x.dim() == 2));
  CHECK((x.dtype() == kFloat32 && x.device() == kCpu));
  CHECK(x.sum().item<float>() == 18.0F);
  CHECK(equal(x({Slice(), 2}), x.select(1, 2)));
  CHECK(equal(x({Ellipsis, 0}), x.select(1, 0)));
  CHECK(equal(x.max(1).values, amax(x, {1})));
  const auto [values, indices] = x.topk(2);
  CHECK(values.shape() == indices.shape());
  x.index_put_({Slice(), 0}, 1.0);
  CHECK(x[1][0].item<float>() == 1.0F);

  const Tensor w = ones({3}), g = zeros({3});
  w.requires_grad_();
  w.set_grad(g);
  const Tensor loss = (x * w).sum();
  CHECK(equal(grad({loss}, {w})[0], x.sum(0)));
  const Tensor again = (x * w).sum();
  CHECK(equal(grad(again, w), x.sum(0)));
  CHECK(equal(w.grad(), g));
  const NoGrad guard;
  CHECK_FALSE((w * 2.0).requires_grad());
}

TEST_CASE("modules and training on the page for people who know libtorch") {
  using from_libtorch::Net, from_libtorch::Rows;
  const hero_test::TempDir dir;
  const std::string path = dir / "net.safetensors";
  manual_seed(1);
  Net net;
  CHECK(net.fc.weight.shape() == Shape{8, 4});
  nn::Conv2d conv(3, 8, 3, {.stride = 2, .bias = false});
  nn::Sequential layers{nn::Linear(8, 8), nn::ReLU()};
  CHECK(conv(ones({1, 3, 9, 9})).shape() == Shape{1, 8, 4, 4});
  CHECK(layers(net(ones({2, 4}))).shape() == Shape{2, 8});
  int seen = 0;
  for (const auto& [name, p] : net.named_parameters()) seen += p.ndim() > 0 && !name.empty();
  CHECK(seen == 3);
  int linear = 0;
  for (nn::Module* const module : net.modules())
    linear += dynamic_cast<nn::Linear*>(module) != nullptr;
  CHECK(linear == 1);

  optim::Adam adam(net.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  optim::Schedule schedule(adam, optim::StepLR{.step_size = 30, .gamma = 0.1});
  nn::data::DataLoader loader(Rows(), {.batch_size = 16, .shuffle = true});
  int batches = 0;
  for (const auto& [data, target] : loader) {
    ++batches;
    CHECK(data.size(0) == target.numel());
    adam.zero_grad();
    net(data).square().mean().backward();
    optim::clip_grad_norm_(net.parameters(), 1.0);
    adam.step();
  }
  CHECK(batches == 3);
  adam.set_lr(1e-4);
  CHECK(adam.lr() == 1e-4);
  net.save(path);
  Net other;
  other.load(path);
  CHECK(equal(other.w, net.w));
  net.to(kFloat64);
  CHECK(net.fc.weight.dtype() == kFloat64);
}
