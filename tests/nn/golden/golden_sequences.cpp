// Makers of attention and recurrent layers.
#include "nn/golden/layer_cases.h"

#include <hero/nn/attention.h>
#include <hero/nn/recurrent.h>
#include <hero/nn/transformer.h>

namespace hero::test {

namespace {

using I = int64_t;

Tensor at(const Tensors& x, size_t i) { return i < x.size() ? x[i] : Tensor(); }

// An input of the case by its number, where the call names one.
Tensor named(const Json& call, const char* name, const Tensors& x) {
  return call.contains(name) ? at(x, call[name].get<size_t>()) : Tensor();
}

Subject attention(const Json& a, const Json& call) {
  nn::MultiheadAttentionOptions options{.bias = get(a, "bias", true)};
  options.batch_first = get(a, "batch_first", false);
  if (a.contains("kdim")) options.kdim = a["kdim"].get<I>();
  if (a.contains("vdim")) options.vdim = a["vdim"].get<I>();
  auto module = std::make_unique<nn::MultiheadAttention>(a["embed_dim"].get<I>(),
                                                         a["num_heads"].get<I>(), options);
  nn::MultiheadAttention* raw = module.get();
  return {std::move(module), [raw, call](const Tensors& x) {
            nn::MultiheadAttentionInputs inputs;
            inputs.need_weights = get(call, "need_weights", true);
            inputs.average_attn_weights = get(call, "average_attn_weights", true);
            inputs.key_padding_mask = named(call, "key_padding_mask", x);
            inputs.attn_mask = named(call, "attn_mask", x);
            const auto result = (*raw)(x[0], x[1], x[2], inputs);
            return result.weights.defined() ? Tensors{result.output, result.weights}
                                            : Tensors{result.output};
          }};
}

Subject encoder_layer(const Json& a, const Json& call) {
  nn::TransformerEncoderLayerOptions options{.dim_feedforward = a["dim_feedforward"].get<I>()};
  options.dropout = get(a, "dropout", 0.1);
  options.layer_norm_eps = get(a, "layer_norm_eps", 1e-5);
  options.batch_first = get(a, "batch_first", false);
  options.norm_first = get(a, "norm_first", false);
  options.bias = get(a, "bias", true);
  const bool gelu = get(a, "activation", std::string("relu")) == "gelu";
  options.activation = gelu ? nn::FeedForwardActivation::gelu : nn::FeedForwardActivation::relu;
  auto module = std::make_unique<nn::TransformerEncoderLayer>(a["d_model"].get<I>(),
                                                              a["nhead"].get<I>(), options);
  nn::TransformerEncoderLayer* raw = module.get();
  return {std::move(module), [raw, call](const Tensors& x) {
            const nn::EncoderMasks masks{
                .mask = named(call, "src_mask", x),
                .src_key_padding_mask = named(call, "src_key_padding_mask", x)};
            return Tensors{(*raw)(x[0], masks)};
          }};
}

nn::RecurrentOptions recurrent(const Json& a) {
  nn::RecurrentOptions options{.num_layers = get(a, "num_layers", I{1})};
  options.bias = get(a, "bias", true);
  options.batch_first = get(a, "batch_first", false);
  options.bidirectional = get(a, "bidirectional", false);
  return options;
}

Subject rnn(const Json& a, const Json&) {
  const nn::RecurrentOptions r = recurrent(a);
  nn::RNNOptions options{.num_layers = r.num_layers};
  options.bias = r.bias;
  options.batch_first = r.batch_first;
  options.bidirectional = r.bidirectional;
  const bool relu = get(a, "nonlinearity", std::string("tanh")) == "relu";
  options.nonlinearity = relu ? Nonlinearity::relu : Nonlinearity::tanh;
  auto module =
      std::make_unique<nn::RNN>(a["input_size"].get<I>(), a["hidden_size"].get<I>(), options);
  nn::RNN* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) {
            const auto result = (*raw)(x[0], at(x, 1));
            return Tensors{result.output, result.h};
          }};
}

Subject gru(const Json& a, const Json&) {
  auto module =
      std::make_unique<nn::GRU>(a["input_size"].get<I>(), a["hidden_size"].get<I>(), recurrent(a));
  nn::GRU* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) {
            const auto result = (*raw)(x[0], at(x, 1));
            return Tensors{result.output, result.h};
          }};
}

Subject lstm(const Json& a, const Json&) {
  auto module =
      std::make_unique<nn::LSTM>(a["input_size"].get<I>(), a["hidden_size"].get<I>(), recurrent(a));
  nn::LSTM* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) {
            const auto result = (*raw)(x[0], LstmState{at(x, 1), at(x, 2)});
            return Tensors{result.output, result.state.h, result.state.c};
          }};
}

template <class M, class Options>
Subject cell(const Json& a, const Options& options) {
  auto module = std::make_unique<M>(a["input_size"].get<I>(), a["hidden_size"].get<I>(), options);
  M* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) {
            if constexpr (std::is_same_v<M, nn::LSTMCell>) {
              const LstmState state = (*raw)(x[0], LstmState{at(x, 1), at(x, 2)});
              return Tensors{state.h, state.c};
            } else {
              return Tensors{(*raw)(x[0], at(x, 1))};
            }
          }};
}

}  // namespace

void add_sequence_layers(Makers& m) {
  m["MultiheadAttention"] = attention;
  m["TransformerEncoderLayer"] = encoder_layer;
  m["RNN"] = rnn;
  m["GRU"] = gru;
  m["LSTM"] = lstm;
  m["RNNCell"] = [](const Json& a, const Json&) {
    const bool relu = get(a, "nonlinearity", std::string("tanh")) == "relu";
    return cell<nn::RNNCell>(
        a, nn::RNNCellOptions{.bias = get(a, "bias", true),
                              .nonlinearity = relu ? Nonlinearity::relu : Nonlinearity::tanh});
  };
  m["LSTMCell"] = [](const Json& a, const Json&) {
    return cell<nn::LSTMCell>(a, nn::CellOptions{.bias = get(a, "bias", true)});
  };
  m["GRUCell"] = [](const Json& a, const Json&) {
    return cell<nn::GRUCell>(a, nn::CellOptions{.bias = get(a, "bias", true)});
  };
}

}  // namespace hero::test
