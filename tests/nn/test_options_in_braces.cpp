// Every layer takes its options in braces from add() and from the containers. This file includes
// nothing but nn.h, which is all that a network needs.
#include "support/catch.h"

#include <hero/nn/nn.h>

using namespace hero;

namespace {

// A layer outside of the library takes part by naming its options.
struct ScaleOptions {
  double factor = 1.0;
};
struct Scale : nn::Module {
  using Options = ScaleOptions;
  explicit Scale(int64_t width, const Options& options = {})
      : factor(options.factor), weight(parameter("weight", {width}, nn::init::ones())) {}
  Tensor forward(const Tensor& x) override { return x * weight * factor; }
  double factor;
  Tensor& weight;
};

// One that has none is made as ever.
struct Plain : nn::Module {
  explicit Plain(int64_t n) : size(n) {}
  int64_t size;
};

struct Everything : nn::Module {
  nn::Linear& linear = add<nn::Linear>("linear", 3, 4, {.bias = false});
  nn::Bilinear& bilinear = add<nn::Bilinear>("bilinear", 3, 4, 5, {.bias = false});
  nn::Embedding& embedding = add<nn::Embedding>("embedding", 10, 4, {.padding_idx = 0});
  nn::Conv1d& conv1 = add<nn::Conv1d>("conv1", 2, 4, 3, {.padding = "same"});
  nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", 2, 4, 3, {.stride = 2, .bias = false});
  nn::ConvTranspose1d& up1 = add<nn::ConvTranspose1d>("up1", 2, 4, 3, {.stride = 2});
  nn::ConvTranspose2d& up2 = add<nn::ConvTranspose2d>("up2", 2, 4, 3, {.stride = 2});
  nn::BatchNorm1d& batch1 = add<nn::BatchNorm1d>("batch1", 4, {.affine = false});
  nn::BatchNorm2d& batch2 = add<nn::BatchNorm2d>("batch2", 4, {.momentum = {}});
  nn::LayerNorm& layer = add<nn::LayerNorm>("layer", 4, {.bias = false});
  nn::LayerNorm& layers = add<nn::LayerNorm>("layers", Shape{2, 4}, {.eps = 1e-6});
  nn::RMSNorm& rms = add<nn::RMSNorm>("rms", 4, {.elementwise_affine = false});
  nn::GroupNorm& group = add<nn::GroupNorm>("group", 2, 4, {.affine = false});
  nn::InstanceNorm1d& instance1 = add<nn::InstanceNorm1d>("instance1", 4, {.affine = true});
  nn::InstanceNorm2d& instance2 = add<nn::InstanceNorm2d>("instance2", 4, {.affine = true});
  nn::MaxPool1d& max1 = add<nn::MaxPool1d>("max1", 2, {.padding = 1});
  nn::MaxPool2d& max2 = add<nn::MaxPool2d>("max2", 2, {.padding = 1});
  nn::AvgPool1d& avg1 = add<nn::AvgPool1d>("avg1", 2, {.ceil_mode = true});
  nn::AvgPool2d& avg2 = add<nn::AvgPool2d>("avg2", 2, {.ceil_mode = true});
  nn::Upsample& upsample = add<nn::Upsample>("upsample", {.scale_factor = 2});
  nn::RNN& rnn = add<nn::RNN>("rnn", 3, 4, {.nonlinearity = Nonlinearity::relu});
  nn::LSTM& lstm = add<nn::LSTM>("lstm", 3, 4, {.num_layers = 2, .batch_first = true});
  nn::GRU& gru = add<nn::GRU>("gru", 3, 4, {.bidirectional = true});
  nn::RNNCell& rnn_cell = add<nn::RNNCell>("rnn_cell", 3, 4, {.bias = false});
  nn::LSTMCell& lstm_cell = add<nn::LSTMCell>("lstm_cell", 3, 4, {.bias = false});
  nn::GRUCell& gru_cell = add<nn::GRUCell>("gru_cell", 3, 4, {.bias = false});
  nn::MultiheadAttention& attention =
      add<nn::MultiheadAttention>("attention", 8, 2, {.batch_first = true});
  nn::TransformerEncoderLayer& block =
      add<nn::TransformerEncoderLayer>("block", 8, 2, {.dim_feedforward = 16});
  nn::TransformerEncoder& encoder =
      add<nn::TransformerEncoder>("encoder", 8, 2, 1, {.layer = {.dim_feedforward = 16}});
  nn::RotaryEmbedding& rotary = add<nn::RotaryEmbedding>("rotary", 4, {.base = 500.0});
  nn::GPT& gpt = add<nn::GPT>(
      "gpt", {.vocab_size = 5, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 4});
  nn::CrossEntropyLoss& entropy =
      add<nn::CrossEntropyLoss>("entropy", {.reduction = Reduction::sum});
  nn::NLLLoss& nll = add<nn::NLLLoss>("nll", {.ignore_index = 0});
  nn::BCELoss& bce = add<nn::BCELoss>("bce", {.reduction = Reduction::sum});
  nn::BCEWithLogitsLoss& logits =
      add<nn::BCEWithLogitsLoss>("logits", {.reduction = Reduction::sum});
  nn::TripletMarginLoss& triplet = add<nn::TripletMarginLoss>("triplet", {.margin = 2.0});
  Scale& scale = add<Scale>("scale", 4, {.factor = 3.0});
  Plain& plain = add<Plain>("plain", 7);
};

}  // namespace

TEST_CASE("every layer takes its options in braces") {
  manual_seed(0);
  Everything all;
  CHECK_FALSE(all.linear.bias.defined());
  CHECK(all.conv1.extra_repr().find("same") != std::string::npos);
  CHECK_FALSE(all.conv2.bias.defined());
  CHECK_FALSE(all.batch1.weight.defined());
  CHECK_FALSE(all.layer.bias.defined());
  CHECK(all.layers.extra_repr().find("1e-06") != std::string::npos);
  CHECK_FALSE(all.group.weight.defined());
  CHECK(all.instance1.weight.defined());
  CHECK(all.lstm.options().num_layers == 2);
  CHECK(all.gru.options().bidirectional);
  CHECK(all.gpt.config().n_embd == 4);
  CHECK(all.scale(ones({4})).to_vector<double>() == std::vector<double>(4, 3.0));
  CHECK(all.plain.size == 7);
  const auto logits = rand({2, 3}), labels = tensor({1, 2});
  CHECK(equal(all.entropy(logits, labels), cross_entropy(logits, labels, Reduction::sum)));
}

TEST_CASE("the first values of a layer do not hang on how its options are written") {
  struct Braces : nn::Module {
    nn::Linear& q = add<nn::Linear>("q", 3, 4, {.bias = false});
  };
  struct Named : nn::Module {
    nn::Linear& q = add<nn::Linear>("q", 3, 4, nn::LinearOptions{.bias = false});
  };
  struct Kept : nn::Module {
    const nn::LinearOptions options{.bias = false};
    nn::Linear& q = add<nn::Linear>("q", 3, 4, options);
  };
  manual_seed(3);
  Braces a;
  manual_seed(3);
  Named b;
  manual_seed(3);
  Kept c;
  CHECK(equal(a.q.weight, b.q.weight));
  CHECK(equal(a.q.weight, c.q.weight));
}

TEST_CASE("containers take options in braces") {
  nn::Sequential net;
  CHECK_FALSE(net.append<nn::Linear>(3, 4, {.bias = false}).bias.defined());
  net.append<nn::ReLU>();
  nn::ModuleListOf<nn::Linear> list;
  CHECK_FALSE(list.append(4, 4, {.bias = false}).bias.defined());
  CHECK(list.append(4, 4).bias.defined());
  nn::ModuleDict dict;
  CHECK_FALSE(dict.insert<nn::Linear>("head", 4, 2, {.bias = false}).bias.defined());
  CHECK(dict["head"](list[0](net(rand({2, 3})))).shape() == Shape{2, 2});
}

TEST_CASE("options of recurrent layers have the layers' names") {
  const nn::LSTMOptions lstm{.num_layers = 2};
  const nn::GRUOptions gru{.bidirectional = true};
  CHECK(nn::LSTM(2, 3, lstm).options().num_layers == 2);
  CHECK(nn::GRU(2, 3, gru).options().bidirectional);
}

TEST_CASE("a padding takes its widths in braces") {
  const Tensor x = ones({1, 2, 2});
  CHECK(nn::ZeroPad2d({1, 2, 3, 4})(x).shape() == Shape{1, 9, 5});
  CHECK(nn::ZeroPad2d(1, 2, 3, 4)(x).shape() == Shape{1, 9, 5});
  CHECK(nn::ZeroPad2d({1})(x).shape() == Shape{1, 4, 4});
  CHECK(nn::ZeroPad2d(1)(x).shape() == Shape{1, 4, 4});
  CHECK(nn::ReplicationPad2d({1, 2, 3, 4})(x).shape() == Shape{1, 9, 5});
  CHECK(nn::ConstantPad3d({1, 2, 0, 0, 0, 0}, 2.0)(ones({1, 1, 1, 1})).sum().item() == 7.0);
}
