// Layers: what they refuse and how they say it, modes, options. Figures are compared with PyTorch's
// in test_golden_layers.cpp.
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/random/random.h>
#include <hero/core/random.h>
#include <hero/nn/nn.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("layers name themselves, the shape they expect and the one they got") {
  nn::Conv2d conv(3, 8, 3);
  CHECK_THROWS_WITH(
      conv(zeros({2, 4, 5, 5})),
      ContainsSubstring("Conv2d: expected [N, 3, H, W] or [3, H, W], got [2, 4, 5, 5]"));
  nn::Conv1d line(3, 8, 3);
  CHECK_THROWS_WITH(line(zeros({2, 4, 5})),
                    ContainsSubstring("Conv1d: expected [N, 3, L] or [3, L], got [2, 4, 5]"));
  nn::ConvTranspose2d back(3, 8, 3);
  CHECK_THROWS_WITH(back(zeros({3, 4})),
                    ContainsSubstring("ConvTranspose2d: expected [N, 3, H, W]"));
  nn::BatchNorm1d norm1(5);
  CHECK_THROWS_WITH(norm1(zeros({2, 6})),
                    ContainsSubstring("BatchNorm1d: expected [N, 5] or [N, 5, L], got [2, 6]"));
  nn::BatchNorm2d norm2(5);
  CHECK_THROWS_WITH(norm2(zeros({2, 5})),
                    ContainsSubstring("BatchNorm2d: expected [N, 5, H, W], got [2, 5]"));
  nn::LayerNorm layer({3, 4});
  CHECK_THROWS_WITH(layer(zeros({2, 4})),
                    ContainsSubstring("LayerNorm: expected [.., 3, 4], got [2, 4]"));
  nn::GroupNorm group(2, 4);
  CHECK_THROWS_WITH(group(zeros({2, 6, 3})), ContainsSubstring("GroupNorm: expected [N, 4, ..]"));
  nn::MaxPool2d pool(2);
  CHECK_THROWS_WITH(pool(zeros({4, 4})),
                    ContainsSubstring("MaxPool2d: expected [N, C, H, W] or [C, H, W], got [4, 4]"));
  nn::Embedding table(5, 2);
  CHECK_THROWS_WITH(table(zeros({2})), ContainsSubstring("Embedding: expected row numbers, int64"));
  nn::Bilinear bilinear(2, 3, 4);
  CHECK_THROWS_WITH(bilinear(zeros({2, 2}), zeros({2, 2})),
                    ContainsSubstring("Bilinear: expected inputs [.., 2] and [.., 3]"));
  nn::Unflatten unflatten(1, {4, -1});
  CHECK_THROWS_WITH(unflatten(zeros({2, 6})),
                    ContainsSubstring("Unflatten: size 6 of dimension 1"));
}

TEST_CASE("layers refuse options that cannot be") {
  CHECK_THROWS_WITH(nn::Conv2d(3, 8, 3, {.groups = 2}),
                    ContainsSubstring("3 and 8 channels do not divide into 2 groups"));
  CHECK_THROWS_WITH(nn::Conv2d(3, 8, 0), ContainsSubstring("kernel_size must be positive"));
  CHECK_THROWS_WITH(nn::Conv2d(3, 8, 3, {.stride = 2, .padding = "same"}),
                    ContainsSubstring("padding \"same\" needs stride 1"));
  CHECK_THROWS_WITH(nn::Conv2d(3, 8, 3, {.padding = "sane"}),
                    ContainsSubstring("'sane' is neither"));
  CHECK_THROWS_WITH(nn::GroupNorm(4, 6),
                    ContainsSubstring("6 channels do not divide into 4 groups"));
  CHECK_THROWS_WITH(nn::Dropout(1.5), ContainsSubstring("Dropout: p is outside [0, 1]: 1.5"));
  CHECK_THROWS_WITH(nn::Embedding(5, 2, {.padding_idx = 5}), ContainsSubstring("padding_idx 5"));
  CHECK_THROWS_WITH(nn::Upsample(nn::UpsampleOptions{}), ContainsSubstring("size or scale_factor"));
}

TEST_CASE("a number stands for both sizes of a window") {
  const std::string text = to_string(nn::Conv2d(1, 32, 3));
  CHECK(text == "Conv2d(1, 32, kernel_size=(3, 3), stride=(1, 1))");
  CHECK(to_string(nn::Conv2d(1, 2, {3, 5}, {.stride = {2, 1}, .padding = 1})) ==
        "Conv2d(1, 2, kernel_size=(3, 5), stride=(2, 1), padding=(1, 1))");
  CHECK(to_string(nn::Conv2d(1, 2, 3, {.padding = {1, 0}, .bias = false})) ==
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 0), bias=False)");
  CHECK(to_string(nn::LayerNorm({512}, {.eps = 1e-6})) ==
        to_string(nn::LayerNorm(512, {.eps = 1e-6})));
  CHECK(to_string(nn::MaxPool2d(2)) ==
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
}

TEST_CASE("dropout acts in training and lets everything through in evaluation") {
  nn::Dropout dropout(0.25);
  manual_seed(4);
  const Tensor x = ones({4000});
  const double kept = sum(dropout(x) > 0).item();
  CHECK(kept > 2800);  // 3000 expected; the deviation is 27
  CHECK(kept < 3200);
  dropout.eval();
  CHECK(is_same(dropout(x), x));
}

TEST_CASE("batch norm counts batches in training only and saves the count") {
  const hero_test::TempDir dir;
  nn::BatchNorm1d norm(3);
  const Tensor x = randn({8, 3});
  for (int i = 0; i < 3; ++i) norm(x);
  norm.eval();
  const std::vector<float> before = norm.running_mean.to_vector<float>();
  norm(x);
  CHECK(norm.num_batches_tracked.item<int64_t>() == 3);
  CHECK(norm.running_mean.to_vector<float>() == before);
  norm.save(dir / "norm.safetensors");
  nn::BatchNorm1d other(3);
  other.load(dir / "norm.safetensors");
  CHECK(other.num_batches_tracked.item<int64_t>() == 3);
  CHECK(other.running_mean.to_vector<float>() == before);
  CHECK_THROWS_WITH(nn::BatchNorm1d(3)(zeros({1, 3})),
                    ContainsSubstring("more than one value per channel"));
}

TEST_CASE("the padding row of an embedding stays at zero in training") {
  nn::Embedding table(4, 2, {.padding_idx = 1});
  sum(table(tensor({0, 1, 1, 3}))).backward();
  CHECK(table.weight.grad().to_vector<float>() == std::vector<float>{1, 1, 0, 0, 0, 0, 1, 1});
}

TEST_CASE("an embedding with a largest norm shortens the rows it looks up, and no others") {
  nn::Embedding table(3, 2, {.max_norm = 1.0});
  {
    const NoGrad no_grad;
    table.weight.copy_(tensor({{3.0f, 4.0f}, {0.3f, 0.4f}, {6.0f, 8.0f}}));
  }
  const Tensor y = table(tensor({0, 1, 0}));
  const std::vector<float> rows = table.weight.to_vector<float>();
  CHECK(std::abs(rows[0] - 0.6f) < 1e-6f);  // a rounding, and the 1e-7 in the divisor
  CHECK(std::abs(rows[1] - 0.8f) < 1e-6f);
  CHECK(std::vector<float>(rows.begin() + 2, rows.end()) == std::vector<float>{0.3f, 0.4f, 6, 8});
  CHECK(y.select(0, 0).to_vector<float>() == std::vector<float>{rows[0], rows[1]});
  sum(y).backward();
  CHECK(table.weight.grad().to_vector<float>() == std::vector<float>{2, 2, 1, 1, 0, 0});
}

TEST_CASE("losses are modules: weights are buffers, hooks run") {
  nn::CrossEntropyLoss loss({.weight = tensor({1.0f, 2.0f, 0.5f})});
  REQUIRE(loss.state_dict().size() == 1);
  CHECK(loss.state_dict()[0].name == "weight");
  CHECK(loss.parameters().empty());
  int calls = 0;
  loss.register_forward_hook([&](nn::Module&, const nn::Tensors& in, const nn::Tensors& out) {
    CHECK(in.size() == 2);
    CHECK(out.size() == 1);
    ++calls;
  });
  loss.to(kFloat64);
  const Tensor x = zeros({2, 3}, {.dtype = kFloat64});
  CHECK(loss(x, tensor({0, 1})).dtype() == kFloat64);
  CHECK(calls == 1);
  CHECK_THROWS_WITH(loss(x), ContainsSubstring("CrossEntropyLoss"));
}

TEST_CASE("a small convolutional network learns to tell two patterns apart") {
  manual_seed(5);
  nn::Sequential net{nn::Conv2d(1, 4, 3, {.padding = "same"}),
                     nn::BatchNorm2d(4),
                     nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Flatten(),
                     nn::Linear(16, 2)};
  // Rows against columns.
  const Tensor stripes = tensor({{1.0f, 0.0f, 1.0f, 0.0f}}).expand({4, 4});
  const Tensor x = reshape(stack({stripes, stripes.t()}), {2, 1, 4, 4}), y = tensor({0, 1});
  nn::CrossEntropyLoss loss;
  for (int step = 0; step < 40; ++step) {
    net.zero_grad();
    loss(net(x), y).backward();
    const NoGrad no_grad;
    for (const Tensor& p : net.parameters()) p.sub_(p.grad() * 0.1);
  }
  CHECK(loss(net(x), y).item() < 0.1);
}

TEST_CASE("CTCLoss and MultiLabelMarginLoss are their functions with hooks around") {
  manual_seed(3);
  const Tensor p = log_softmax(randn({5, 2, 4}), -1), targets = tensor({{1, 2}, {3, 3}});
  const Tensor inputs = tensor({5, 4}), lengths = tensor({2, 1});
  nn::CTCLoss ctc({.blank = 0, .reduction = Reduction::sum});
  int calls = 0;
  ctc.register_forward_hook([&](nn::Module&, const nn::Tensors& in, const nn::Tensors&) {
    CHECK(in.size() == 4);
    ++calls;
  });
  CHECK(equal(ctc(p, targets, inputs, lengths),
              ctc_loss(p, targets, inputs, lengths, {.reduction = Reduction::sum})));
  CHECK(calls == 1);
  const Tensor x = randn({2, 4}), y = tensor({{3, 0, -1, 1}, {1, -1, 2, 3}});
  nn::MultiLabelMarginLoss margin(Reduction::none);
  CHECK(equal(margin(x, y), multilabel_margin_loss(x, y, Reduction::none)));
}

TEST_CASE("max pooling names places, from which MaxUnpool puts the values back") {
  manual_seed(4);
  const Tensor x = randn({1, 2, 4, 6});
  nn::MaxPool2d pool(2);
  const auto [values, places] = pool.forward_with_indices(x);
  CHECK(equal(values, pool(x)));
  CHECK(equal(gather(flatten(x, 2), 2, flatten(places, 2)), flatten(values, 2)));
  const Tensor back = nn::MaxUnpool2d(2)(values, places);
  CHECK(back.shape() == x.shape());
  CHECK(equal(pool(back).clamp(0.0, {}), values.clamp(0.0, {})));
  CHECK_THROWS_WITH(nn::MaxUnpool2d(2)(values, places, {6, 6}),
                    ContainsSubstring("output_size 6 in dimension 0 is not less than a stride"));
  CHECK_THROWS_WITH(nn::ReflectionPad2d({1, 2, 3}), ContainsSubstring("3 widths for 2 dimensions"));
  CHECK_THROWS_WITH(nn::Conv1d(2, 2, 3, {.padding = Pair{1, 2}}),
                    ContainsSubstring("padding of 2 numbers for 1 dimension"));
}

TEST_CASE("a circular convolution of negative padding reads what is left of a line") {
  const Tensor x = arange(1.0, 8.0).reshape({1, 1, 7}).requires_grad_();
  nn::Conv1d conv(
      1, 1, 1,
      {.stride = 2, .padding = -1, .bias = false, .padding_mode = nn::PaddingMode::circular});
  conv.weight.set_data(Array::ones({1, 1, 1}, kFloat32));
  const Tensor y = conv(x);
  CHECK(y.to_vector<double>() == std::vector<double>{2, 4, 6});
  CHECK(grad(sum(y), x).to_vector<double>() == std::vector<double>{0, 1, 0, 1, 0, 1, 0});
}

TEST_CASE("options that are whole numbers are printed as they were given") {
  CHECK(to_string(nn::LPPool2d(2, 3)) ==
        "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)");
  CHECK(to_string(nn::LPPool1d(2.0, 3)).starts_with("LPPool1d(norm_type=2.0,"));
  CHECK(to_string(nn::Threshold(0.5, 20)) == "Threshold(threshold=0.5, value=20)");
  CHECK(to_string(nn::Hardtanh(-2, 2.5)) == "Hardtanh(min_val=-2, max_val=2.5)");
  CHECK(to_string(nn::Softplus(2)) == "Softplus(beta=2, threshold=20.0)");
  CHECK(to_string(nn::Softshrink(1)) == "Softshrink(1)");
}

TEST_CASE("norms of a single value per group or channel are errors, as BatchNorm's") {
  const auto one_value = ContainsSubstring("needs more than one value per ");
  for (const bool training : {true, false}) {
    nn::GroupNorm group(2, 2);
    nn::InstanceNorm1d instance(2);
    nn::InstanceNorm2d affine(2, {.affine = true});
    nn::InstanceNorm1d tracking(2, {.track_running_stats = true});
    for (nn::Module* module : std::vector<nn::Module*>{&group, &instance, &affine, &tracking}) {
      module->train(training);
    }
    CHECK_THROWS_WITH(group(rand({1, 2})), one_value);
    CHECK_THROWS_WITH(group(rand({1, 2, 1, 1})), one_value);
    CHECK_THROWS_WITH(instance(rand({2, 2, 1})), one_value);
    CHECK_THROWS_WITH(instance(rand({2, 1})), one_value);
    CHECK_THROWS_WITH(affine(rand({3, 2, 1, 1})), one_value);
    // Statistics of evaluation are of many values.
    if (training) {
      CHECK_THROWS_WITH(tracking(rand({2, 2, 1})), one_value);
    } else {
      const Tensor x = rand({2, 2, 1});
      CHECK(allclose(tracking(x), x, 1e-4));  // over the root of 1 + 1e-5
    }
    CHECK(group(rand({0, 2})).shape() == Shape{0, 2});
    CHECK(instance(rand({0, 2, 1})).shape() == Shape{0, 2, 1});
    CHECK(instance(rand({1, 2, 2})).shape() == Shape{1, 2, 2});
    CHECK(group(rand({1, 2, 2})).shape() == Shape{1, 2, 2});
  }
  CHECK_THROWS_WITH(instance_norm(rand({2, 2, 1}), zeros({2}), ones({2}), {}), one_value);
}
