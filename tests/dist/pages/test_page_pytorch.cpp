// The right-hand sides of docs/coming_from.md, compiled and run: tests/scripts/test_pytorch_page
// looks for each of them in this file and in its neighbours of similar names.
#include <sstream>
#include <type_traits>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/functions/gradcheck.h>
#include <hero/core/npy.h>
#include <hero/nn/data/data.h>
#include <hero/nn/nn.h>
#include <hero/nn/summary.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

using namespace hero;

namespace translated {

struct Net : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 6, 8);
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", Shape{8});
  nn::ModuleList& layers = add<nn::ModuleList>("layers");
  Tensor& scale = parameter("scale", {8}, nn::init::ones());
  Tensor& mask = buffer("mask", {8}, nn::init::ones());
  Net() { layers.append<nn::Linear>(8, 3, {.bias = false}); }
  Tensor forward(const Tensor& x) override {
    Tensor h = gelu(norm(fc1(x))) * scale * mask;
    for (nn::Module& layer : layers) h = layer(h);
    return h;
  }
};

struct Pairs : nn::data::Dataset {
  int64_t size() const override { return 12; }
  nn::data::Example get(int64_t i) const override {
    return {full({6}, static_cast<double>(i)), tensor(i % 3)};
  }
};

}  // namespace translated

using translated::Net;
using translated::Pairs;

TEST_CASE("the page for PyTorch's users: tensors") {
  manual_seed(0);
  const Tensor a = tensor({1.0, 2.0}), m = tensor({{1.0, 2.0}, {3.0, 4.0}});
  CHECK(zeros({2, 3}).shape() == ones({2, 3}).shape());
  CHECK(full({2}, 7).dtype() == kInt64);
  CHECK(arange(0, 10, 2).numel() == linspace(0.0, 1.0, 5).numel());
  CHECK(randn({2, 3}, {.dtype = kFloat64}).dtype() == kFloat64);
  CHECK(randint(0, 10, {4}).dtype() == kInt64);
  const Tensor x = rand({2, 3, 4});
  CHECK((x.shape() == Shape{2, 3, 4} && x.ndim() == 3 && x.numel() == 24 && x.size(-1) == 4));
  CHECK(x.to(kBFloat16).dtype() == kBFloat16);
  CHECK(x.to(kCpu).device() == kCpu);
  CHECK(x[0].shape() == Shape{3, 4});
  CHECK(x.slice(1, 0, 2).shape() == Shape{2, 2, 4});
  CHECK(x.slice(2, 0, kEnd, 2).shape() == Shape{2, 3, 2});
  CHECK(x.index({tensor({0, 1}), tensor({2, 2})}).shape() == Shape{2, 4});
  CHECK(x[x > 0.5].equal(x.masked_select(x > 0.5)));
  CHECK(x({Slice(), None, Ellipsis, 0}).shape() == Shape{2, 1, 3});
  CHECK(x({0, Slice(None, None, 2), Slice(1, 3)}).shape() == Shape{2, 2});
  CHECK(x.unsqueeze(0).squeeze(0).shape() == x.shape());
  CHECK(x.transpose(1, 2).reshape({2, -1}).shape() == Shape{2, 12});
  CHECK(x.permute({2, 0, 1}).contiguous().shape() == Shape{4, 2, 3});
  CHECK(cat({a, a}, 0).numel() == stack({a, a}).numel());
  CHECK(matmul(m, m).equal(m.matmul(m)));
  CHECK(einsum("bij,bkj->bik", {x, x}).shape() == Shape{2, 3, 3});
  CHECK(x.sum({1, 2}).shape() == Shape{2});
  CHECK(x.mean({-1}, true).shape() == Shape{2, 3, 1});
  const auto [values, indices] = x.max(1);
  CHECK(values.shape() == indices.shape());
  CHECK(where(x > 0.5, x, 0.0).equal(masked_fill(x, x <= 0.5, 0.0)));
  CHECK(clamp(x, 0.0, {}).equal(x));
  CHECK(floor_divide(a, 2).equal(div(a, 2, Rounding::trunc)));
  CHECK(x.sum(1, false, kFloat64).dtype() == kFloat64);
  CHECK(quantile(x, 0.9, {.dim = 1}).shape() == Shape{2, 4});
  const Tensor i = tensor({3, 1, 3}), index = zeros({2, 3, 4}, kInt64);
  CHECK(unique(i, {.return_counts = true}).counts.equal(tensor({1, 2})));
  CHECK(scatter_reduce(x, 1, index, x, ScatterReduce::amax).shape() == x.shape());
  const Tensor p = tensor({0.2, 0.3, 0.5}), w = empty({4}), image = ones({1, 1, 2, 2});
  CHECK(multinomial(p, 2).numel() == 2);
  w.normal_(0, 0.02), w.uniform_(-1, 1);
  CHECK(interpolate(image, {.scale_factor = {2}, .mode = Interpolation::bilinear})
            .equal(ones({1, 1, 4, 4})));
  CHECK(normalize(x, 2.0, -1).shape() == x.shape());
  const auto [u, s, vh] = svd(m);
  CHECK(allclose(matmul(u * s, vh), m, 1e-4, 1e-5));
  CHECK(((x > 0.2) & ~(x > 0.7)).dtype() == kBool);
  for (const DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool}) {
    CHECK(zeros({2}, dtype).dtype() == dtype);
  }
  CHECK(a.sum().item() == 3.0);
  CHECK(a.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(x.new_zeros({3}).equal(zeros({3})));
  CHECK(x.mT().shape() == Shape{2, 4, 3});
  a.add_(1.0);
  a *= 2.0;
  CHECK(a.equal(tensor({4.0, 6.0})));
  const hero_test::TempDir dir;
  const std::string path = dir / "x.npy";
  core::save_npy(path, x.array());
  const Tensor read = Tensor(core::load_npy(path));
  CHECK(read.equal(x));
}

TEST_CASE("the page for PyTorch's users: writing through indices") {
  const Tensor x = zeros({2, 3, 4}), rows = tensor({1, 1}), v = ones({3});
  x.index_put_({Slice(), Slice(1)}, 0);
  CHECK(x.index_put_({rows, Ellipsis, 0}, v, true).sum().item() == 6.0);
}

TEST_CASE("the page for PyTorch's users: autograd") {
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor loss = (x * x).sum();
  loss.backward({.retain_graph = true});
  CHECK(x.grad().equal(tensor({2.0, 4.0})));
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
  const Tensor dx = grad(loss, x, {.create_graph = true});
  const Tensor ddx = grad(dx.sum(), x);
  CHECK(ddx.equal(tensor({2.0, 2.0})));
  const Tensor v = tensor({3.0, 1.0});
  const Tensor xv = grad(x * x, x, {.grad_outputs = {v}});
  CHECK(xv.equal(tensor({6.0, 4.0})));
  const std::vector<Tensor> of_both = grad({x.sum(), x.square().sum()}, {x});
  CHECK(of_both[0].equal(tensor({3.0, 5.0})));
  {
    const NoGrad no_grad;
    x.sub_(0.1 * dx);
  }
  CHECK_FALSE(x.detach().requires_grad());
  const HookHandle hook = x.register_hook([](const Tensor& g) { return 2.0 * g; });
  const Tensor y = checkpoint([](const Tensor& in) { return sin(in); }, x);
  y.sum().backward();
  CHECK(allclose(x.grad(), 2.0 * cos(x)));
  const Tensor wide = tensor({1.0, 2.0}, {.dtype = kFloat64, .requires_grad = true});
  CHECK(gradcheck([](const auto& in) { return sin(in[0]); }, {wide}));
  const auto f = [](const Tensor& in) { return (in * in).sum(); };
  CHECK(jacobian(f, x).equal(2.0 * x.detach()));
  CHECK(hessian(f, x).equal(2.0 * eye(2)));
  CHECK(hvp(f, x, v).product.equal(2.0 * v));
  CHECK(vjp(f, x).product.equal(2.0 * x.detach()));
  CHECK(allclose(jvp(f, x, v).product, 2.0 * dot(x, v)));
  const DetectAnomaly anomaly;
}

TEST_CASE("the page for PyTorch's users: modules") {
  manual_seed(0);
  const hero_test::TempDir dir;
  Net model;
  const Tensor x = randn({4, 6});
  CHECK(model(x).shape() == Shape{4, 3});
  model.train();
  model.eval();
  model.fc1.requires_grad_(false);
  CHECK(model.parameter_count() == 6 * 8 + 8 + 16 + 8 + 24);
  for (const auto& [name, p] : model.named_parameters()) CHECK(model.get_parameter(name).is_leaf());
  {
    Net twin;
    twin.load_state_dict(model.state_dict());
    CHECK(equal(twin(x), model(x)));
  }
  model.apply([](nn::Module& each) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&each)) nn::init::xavier_uniform_(linear->weight);
  });
  const nn::StateDict state = model.state_dict();
  model.load_state_dict(state);
  model.load_state_dict(state, {.strict = false});
  const std::string path = dir / "net.safetensors";
  model.save(path);
  model.load(path);
  const HookHandle hook = model.fc1.register_forward_hook(
      [](nn::Module&, const nn::Tensors&, const nn::Tensors& given) { CHECK(given.size() == 1); });
  model(x);
  nn::Sequential net{nn::Linear(6, 8), nn::ReLU(), nn::Dropout(0.1), nn::Linear(8, 3)};
  CHECK(net(x).shape() == Shape{4, 3});
  const nn::DeviceScope meta(kMeta);
  Net planned;
  planned.materialize();
  planned.to(kBFloat16);
  std::ostringstream out;
  out << model << nn::summary(model, {4, 6});
  CHECK(out.str().find("fc1") != std::string::npos);
  nn::LSTM lstm(6, 8, {.num_layers = 2, .batch_first = true});
  nn::MultiheadAttention attention(8, 2);
  CHECK(lstm.parameters().size() == 8);
}

namespace program {
using namespace hero;
struct Index {};
}  // namespace program

struct Residual : nn::Module {
  explicit Residual(int64_t width) : inner(add<nn::Linear>("inner", width, width)) {}
  Tensor operator()(const Tensor& x, const Tensor& mask) { return x + mask * inner(x); }
  nn::Linear& inner;
};

TEST_CASE("the page for PyTorch's users: functional calls, parametrizations, sequences") {
  manual_seed(0);
  struct Stack : nn::Module {
    nn::ModuleListOf<Residual>& blocks = add<nn::ModuleListOf<Residual>>("blocks");
    Stack() { blocks.append(6); }
    Tensor operator()(Tensor x, const Tensor& mask) {
      for (auto& block : blocks) x = block(x, mask);
      return x;
    }
  } deep;
  const Tensor x = randn({4, 6});
  CHECK(deep(x, ones({6})).shape() == x.shape());
  CHECK(std::is_empty_v<program::Index>);
  nn::Linear model(6, 3);
  nn::Named<Tensor> fast = model.named_parameters();
  CHECK(nn::functional_call(model, fast, x).equal(model(x)));
  CHECK(nn::parameters_to_vector(model.parameters()).numel() == model.parameter_count());
  nn::Sequential critic{nn::spectral_norm(nn::Linear(6, 8)), nn::LeakyReLU(0.2), nn::Linear(8, 1)};
  CHECK(critic(x).shape() == Shape{4, 1});
  nn::Conv1d conv(6, 8, 3);
  nn::weight_norm(conv);
  CHECK(conv(randn({1, 6, 5})).shape() == Shape{1, 8, 3});
  const Tensor batch = nn::pad_sequence({randn({3, 6}), randn({2, 6})}, {.batch_first = true});
  nn::GRU gru(6, 8, {.batch_first = true});
  const auto packed = nn::pack_padded_sequence(batch, {3, 2}, {.batch_first = true});
  const auto [output, h] = gru(packed);
  const Tensor padded = nn::pad_packed_sequence(output, {.batch_first = true}).output;
  CHECK(padded.shape() == Shape{2, 3, 8});
  CHECK(h.shape() == Shape{1, 2, 8});
  nn::TransformerDecoder decoder(8, 2, 2, {.layer = {.dim_feedforward = 16, .batch_first = true}});
  CHECK(decoder(padded, padded, {.tgt_is_causal = true}).shape() == padded.shape());
}

TEST_CASE("the page for PyTorch's users: attention and images") {
  manual_seed(0);
  const Tensor h = randn({5, 4, 8}), q = randn({2, 2, 4, 8}), image = randn({2, 3, 8, 8});
  nn::MultiheadAttention attn(8, 2);
  const Tensor y = attn(h, h, h, {.need_weights = false}).output;
  CHECK(y.shape() == h.shape());
  const Tensor z = scaled_dot_product_attention(q, q, q, {.is_causal = true});
  CHECK(allclose(z.select(2, 0), q.select(2, 0)));  // the first query sees only itself
  nn::Conv2d conv(3, 4, 3, {.padding = 1});
  const Tensor halved = max_pool2d(conv(image), {2, 2});
  CHECK(halved.shape() == Shape{2, 4, 4, 4});
}

TEST_CASE("the page for PyTorch's users: losses, optimizers and precision") {
  manual_seed(0);
  Net model;
  const Tensor x = randn({4, 6}), labels = randint(0, 3, {4});
  Tensor loss = cross_entropy(model(x), labels);
  optim::AdamW adamw(model.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  optim::Schedule schedule(adamw, optim::CosineAnnealingLR{.t_max = 100});
  {
    optim::Adam adam(model.parameters(), {.lr = 2e-4, .betas = {0.5, 0.999}});
    const optim::AdamOptions& options = adam.options();
    CHECK(options.betas[0] == 0.5);
  }
  adamw.zero_grad();
  loss.backward();
  const double norm = optim::clip_grad_norm(model.parameters(), 1.0).item();
  adamw.step();
  schedule.step();
  CHECK(norm > 0.0);
  optim::SGD sgd(
      {{model.fc1.parameters(), {.lr = 0.1}}, {model.layers.parameters(), {.lr = 0.01}}});
  adamw.set_lr(1e-4);
  CHECK(adamw.lr() == 1e-4);
  {
    const optim::Curve warm =
        optim::SequentialLR{{optim::LinearLR{.start_factor = 0.1, .total_iters = 10},
                             optim::CosineAnnealingLR{.t_max = 90}},
                            {10}};
    optim::AdamW other(model.parameters(), {.lr = 1.0});
    const optim::Schedule warmed(other, warm);
    CHECK((other.lr() > 0.099 && other.lr() < 0.101));
  }
  optim::ReduceLROnPlateau plateau(adamw, {.patience = 5});
  plateau.step(loss.item());
  CHECK(plateau.best() == loss.item());
  optim::clip_grad_value(model.parameters(), 0.5);
  const optim::StateDict state = adamw.state_dict();
  adamw.load_state_dict(state);
  {
    const Tensor p = zeros({3}).requires_grad_();
    adamw.add_param_group({{p}, {.lr = 1e-4}});
    p.set_grad(ones({3}));
    adamw.step();
    CHECK(p.detach().amax().item() < 0.0);
  }
  {
    const Autocast autocast({.dtype = kBFloat16});
    loss = cross_entropy(model(x), labels);
  }
  {
    Profiler profiler;
    const ProfileScope part("evaluation");
    model(x);
    CHECK(profiler.table().find("linear") != std::string::npos);
  }
  optim::GradScaler scaler;
  scaler.scale(loss).backward();
  scaler.unscale_(adamw);
  scaler.step(adamw);
  scaler.update();
  optim::EMA ema(model.parameters(), {.decay = 0.999});
  ema.step();
  {
    const optim::EMA::Scope averaged(ema);
    CHECK(cross_entropy(model(x), labels).item() > 0.0);
  }
  Net half;
  half.to(kBFloat16);
  optim::MasterWeights<optim::AdamW> masters(half.parameters(), {.lr = 1e-3});
  optim::LBFGS lbfgs(model.parameters());
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Tensor now = cross_entropy(model(x), labels);
    now.backward();
    return now;
  });
  CHECK(masters.parameters().size() == half.parameters().size());
}

TEST_CASE("the page for PyTorch's users: data and saving") {
  manual_seed(0);
  const hero_test::TempDir dir;
  const nn::data::TensorDataset points({rand({12, 6}), randint(0, 3, {12})});
  nn::data::DataLoader loader(points, {.batch_size = 4, .shuffle = true, .workers = 1});
  for (const auto& [x, y] : loader) CHECK(x.size(0) == y.size(0));
  const auto parts = nn::data::random_split(Pairs(), {0.75, 0.25});
  CHECK(parts[1].size() == 3);
  nn::data::DistributedSampler sampler(points, {.num_replicas = 2, .rank = 0});
  nn::data::DataLoader share(points, {.batch_size = 4, .sampler = &sampler});
  CHECK(share.size() == 2);
  Net model;
  const std::string run = dir / "run";
  nn::Checkpointer checkpoint(run);
  checkpoint.track("model", model);
  checkpoint.track("loader", loader);
  checkpoint.save(100);
  CHECK(checkpoint.resume() == 100);
  nn::MetricsWriter metrics(run);
  metrics.write(100, {{"train/loss", 0.5}});
}
