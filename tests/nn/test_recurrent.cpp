// RNN, LSTM, GRU and their cells against PyTorch.
#include "nn/golden/golden_case.h"
#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/nn/activation.h>
#include <hero/nn/container.h>
#include <hero/nn/linear.h>
#include <hero/nn/recurrent.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::GoldenCase;
using Inputs = GoldenCase::Inputs;

namespace {

Tensor given(const Inputs& in, const char* name) {
  const auto found = in.find(name);
  return found == in.end() ? Tensor() : found->second;
}

template <class M>
void check_layer(const char* name, M layer) {
  GoldenCase("recurrent", name).check(layer, [&](const Inputs& in) -> std::vector<Tensor> {
    const auto result = layer(in.at("x"), given(in, "h"));
    return {result.output, result.h};
  });
}

void check_lstm(const char* name, nn::LSTM lstm) {
  GoldenCase("recurrent", name).check(lstm, [&](const Inputs& in) -> std::vector<Tensor> {
    const auto [output, state] = lstm(in.at("x"), {given(in, "h"), given(in, "c")});
    return {output, state.h, state.c};
  });
}

}  // namespace

TEST_CASE("recurrent layers are PyTorch's: outputs, states, gradients") {
  check_layer("rnn", nn::RNN(3, 2, {.num_layers = 2, .bidirectional = true}));
  check_layer("rnn_relu", nn::RNN(3, 2, {.nonlinearity = Nonlinearity::relu, .bias = false}));
  check_lstm("lstm", nn::LSTM(3, 2, {.num_layers = 2, .bidirectional = true}));
  check_lstm("lstm_batch", nn::LSTM(3, 2, {.bias = false, .batch_first = true}));
  check_layer("gru", nn::GRU(3, 2, {.num_layers = 2, .bidirectional = true}));
  check_layer("gru_single", nn::GRU(3, 2, {.bidirectional = true}));
}

TEST_CASE("recurrent cells are PyTorch's") {
  nn::RNNCell rnn(3, 2);
  GoldenCase("recurrent", "rnn_cell").check(rnn, [&](const Inputs& in) -> std::vector<Tensor> {
    return {rnn(in.at("x"), in.at("h"))};
  });
  nn::LSTMCell lstm(3, 2);
  GoldenCase("recurrent", "lstm_cell").check(lstm, [&](const Inputs& in) -> std::vector<Tensor> {
    const LstmState state = lstm(in.at("x"), {in.at("h"), in.at("c")});
    return {state.h, state.c};
  });
  nn::GRUCell gru(3, 2, {.bias = false});
  GoldenCase("recurrent", "gru_cell").check(gru, [&](const Inputs& in) -> std::vector<Tensor> {
    return {gru(in.at("x"))};
  });
}

TEST_CASE("first and second derivatives of recurrent layers") {
  const auto random = [](const Shape& shape) {
    return randn(shape, {.dtype = kFloat64, .requires_grad = true});
  };
  nn::LSTM lstm(2, 2, {.bidirectional = true});
  nn::GRU gru(2, 2, {.num_layers = 2});
  lstm.to(kFloat64);
  gru.to(kFloat64);
  const auto run_lstm = [&](const std::vector<Tensor>& x) {
    const auto [output, state] = lstm(x[0], {x[1], x[2]});
    return std::vector<Tensor>{output, state.h, state.c};
  };
  const auto run_gru = [&](const std::vector<Tensor>& x) {
    const auto [output, h] = gru(x[0], x[1]);
    return std::vector<Tensor>{output, h};
  };
  const std::vector<Tensor> for_lstm{random({3, 1, 2}), random({2, 1, 2}), random({2, 1, 2})};
  const std::vector<Tensor> for_gru{random({3, 1, 2}), random({2, 1, 2})};
  CHECK(gradcheck(run_lstm, for_lstm));
  CHECK(gradgradcheck(run_lstm, for_lstm));
  CHECK(gradcheck(run_gru, for_gru));
  CHECK(gradgradcheck(run_gru, for_gru));
}

TEST_CASE("a layer's steps are those of the cell with its weights") {
  manual_seed(2);
  nn::GRU layer(3, 4);
  nn::GRUCell cell(3, 4);
  nn::StateDict weights;
  for (const auto& [name, array] : layer.state_dict()) {
    weights.push_back({name.substr(0, name.size() - 3), array});  // without _l0
  }
  cell.load_state_dict(weights);
  const Tensor x = randn({5, 2, 3});
  const auto [output, last] = layer(x);
  Tensor h;
  for (int64_t t = 0; t < 5; ++t) {
    h = cell(x[t], h);
    // 1e-6: floats, sums of 4 terms of size 1
    CHECK(allclose(output[t], h, 1e-6, 1e-6));
  }
  CHECK(equal(output[4], last[0]));
}

TEST_CASE("recurrent layers between modules give their output alone") {
  nn::LSTM lstm(3, 2);
  nn::Module& module = lstm;
  const Tensor x = randn({4, 1, 3});
  CHECK(equal(module(x), lstm(x).output));
}

TEST_CASE("dropout between recurrent layers acts in training only and not on the last") {
  manual_seed(4);
  nn::RNN deep(3, 8, {.num_layers = 2, .dropout = 0.5}), flat(3, 8, {.dropout = 0.5});
  const Tensor x = randn({4, 2, 3});
  CHECK(!equal(deep(x).output, deep(x).output));
  CHECK(equal(flat(x).output, flat(x).output));
  deep.eval();
  CHECK(equal(deep(x).output, deep(x).output));
}

TEST_CASE("recurrent layers start uniform within 1 / sqrt(hidden_size)") {
  manual_seed(5);
  nn::LSTM lstm(10, 25, {.num_layers = 2});
  std::string names;
  for (const auto& [name, p] : lstm.named_parameters()) {
    names += name + " ";
    // 100 or more draws: the largest is above 0.9 of the bound but for 1 in 30000
    const double largest = max(abs(p)).item();
    CHECK((largest <= 0.2 && largest > 0.18));
  }
  CHECK(names ==
        "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 "
        "weight_ih_l1 weight_hh_l1 bias_ih_l1 bias_hh_l1 ");
}

TEST_CASE("recurrent layers say what does not fit") {
  CHECK_THROWS_WITH(nn::GRU(0, 2), ContainsSubstring("GRU: input_size and hidden_size must be"));
  CHECK_THROWS_WITH(nn::LSTM(3, 2, {.num_layers = 0}), ContainsSubstring("num_layers"));
  nn::LSTM lstm(3, 2, {.num_layers = 2});
  CHECK_THROWS_WITH(lstm(zeros({4, 1, 5})),
                    ContainsSubstring("LSTM: x has 5 features and the layer takes 3"));
  CHECK_THROWS_WITH(lstm(zeros({3})), ContainsSubstring("x must be [T, N, I] or [T, I]"));
  CHECK_THROWS_WITH(lstm(zeros({0, 1, 3})), ContainsSubstring("the sequence is empty"));
  CHECK_THROWS_WITH(lstm(zeros({4, 1, 3}), {zeros({1, 1, 2}), zeros({2, 1, 2})}),
                    ContainsSubstring("h has shape [1, 1, 2]; it should be [2, 1, 2]"));
  CHECK_THROWS_WITH(lstm(zeros({4, 3}), {zeros({2, 2}), zeros({2, 1, 2})}),
                    ContainsSubstring("c has shape [2, 1, 2]; it should be [2, 2]"));
}

TEST_CASE("a recurrent layer on meta has shapes") {
  const nn::DeviceScope meta(kMeta);
  nn::LSTM lstm(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  const auto [output, state] = lstm(zeros({5, 4, 3}, {.device = kMeta}));
  CHECK(output.shape() == Shape{5, 4, 4});
  CHECK(state.c.shape() == Shape{4, 5, 2});
}

TEST_CASE("recurrent layers and cells print what they were made with, as in PyTorch") {
  CHECK(to_string(nn::RNN(3, 4)) == "RNN(3, 4)");
  CHECK(to_string(nn::LSTM(3, 4, {.num_layers = 2, .batch_first = true, .dropout = 0.1})) ==
        "LSTM(3, 4, num_layers=2, batch_first=True, dropout=0.1)");
  CHECK(to_string(nn::GRU(3, 4, {.bias = false, .bidirectional = true})) ==
        "GRU(3, 4, bias=False, bidirectional=True)");
  CHECK(to_string(nn::GRUCell(3, 4)) == "GRUCell(3, 4)");
  CHECK(to_string(nn::LSTMCell(3, 4, {.bias = false})) == "LSTMCell(3, 4, bias=False)");
  CHECK(to_string(nn::RNNCell(3, 4, {.nonlinearity = Nonlinearity::relu})) ==
        "RNNCell(3, 4, nonlinearity=relu)");
}

TEST_CASE("a list prints neighbours that look the same as one") {
  nn::ModuleList list;
  for (int i = 0; i < 3; ++i) list.append<nn::Sequential>().append<nn::Linear>(2, 2);
  list.append<nn::ReLU>();
  list.append<nn::Sequential>().append<nn::Linear>(2, 2);
  CHECK(to_string(list) ==
        "ModuleList(\n  (0-2): 3 x Sequential(\n"
        "    (0): Linear(in_features=2, out_features=2, bias=True)\n  )\n  (3): ReLU()\n"
        "  (4): Sequential(\n    (0): Linear(in_features=2, out_features=2, bias=True)\n  )\n)");
  CHECK(to_string(nn::ModuleList()) == "ModuleList()");
}
