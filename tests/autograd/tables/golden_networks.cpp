#include "autograd/tables/golden.h"

namespace hero::golden {

namespace {

Operator loss(Tensor (*f)(const Tensor&, const Tensor&, Reduction)) {
  return [f](const Call& c) { return Results{f(c.x(), c.in("y"), c.reduction())}; };
}

Results kl(const Call& c) {
  const auto text = c.get<std::string>("reduction", "mean");
  const bool log_target = c.get("log_target", false);
  if (text == "batchmean") {
    return {kl_div(c.x(), c.in("y"), KlReduction::batchmean, log_target)};
  }
  KlReduction reduction = KlReduction::mean;
  if (c.reduction() == Reduction::none) reduction = KlReduction::none;
  if (c.reduction() == Reduction::sum) reduction = KlReduction::sum;
  return {kl_div(c.x(), c.in("y"), reduction, log_target)};
}

void add_losses(Table& table) {
  table["softmax"] = [](const Call& c) -> Results { return {softmax(c.x(), c.integer("dim"))}; };
  table["log_softmax"] = [](const Call& c) -> Results {
    return {log_softmax(c.x(), c.integer("dim"))};
  };
  table["strided_softmax"] = [](const Call& c) -> Results {
    const Tensor x = slice(permute(c.x(), c.dims("dims")), -1, 0, kEnd, c.integer("step"));
    return {softmax(x, c.integer("dim"))};
  };
  table["cross_entropy"] = [](const Call& c) -> Results {
    return {cross_entropy(c.x(), c.in("target"),
                          {.weight = c.in("weight"),
                           .reduction = c.reduction(),
                           .ignore_index = c.get<int64_t>("ignore_index", -100),
                           .label_smoothing = c.get("label_smoothing", 0.0)})};
  };
  table["nll_loss"] = [](const Call& c) -> Results {
    return {nll_loss(c.x(), c.in("target"),
                     {.weight = c.in("weight"),
                      .reduction = c.reduction(),
                      .ignore_index = c.get<int64_t>("ignore_index", -100)})};
  };
  table["mse_loss"] = loss(mse_loss);
  table["l1_loss"] = loss(l1_loss);
  table["huber_loss"] = [](const Call& c) -> Results {
    return {huber_loss(c.x(), c.in("y"), c.get("delta", 1.0), c.reduction())};
  };
  table["smooth_l1_loss"] = [](const Call& c) -> Results {
    return {smooth_l1_loss(c.x(), c.in("y"), c.get("beta", 1.0), c.reduction())};
  };
  table["bce_with_logits"] = [](const Call& c) -> Results {
    return {bce_with_logits(c.x(), c.in("y"), c.in("pos_weight"), c.reduction())};
  };
  table["kl_div"] = kl;
}

Results batch_normalised(const Call& c) {
  // Updated in place, and the case runs more than once.
  const Tensor mean = c.in("running_mean"), variance = c.in("running_var");
  const Tensor running_mean = mean.defined() ? clone(mean) : mean;
  const Tensor running_var = variance.defined() ? clone(variance) : variance;
  const bool training = c.get("training", false);
  const Tensor y = batch_norm(c.x(), running_mean, running_var,
                              {.weight = c.in("weight"),
                               .bias = c.in("bias"),
                               .training = training,
                               .momentum = c.get("momentum", 0.1),
                               .eps = c.get("eps", 1e-5)});
  if (!training) return {y};
  return {y, running_mean, running_var};
}

void add_norms(Table& table) {
  table["layer_norm"] = [](const Call& c) -> Results {
    return {layer_norm(c.x(), c.dims("normalized_shape"), c.in("weight"), c.in("bias"),
                       c.get("eps", 1e-5))};
  };
  table["rms_norm"] = [](const Call& c) -> Results {
    return {rms_norm(c.x(), c.in("weight"), c.get("eps", 1e-5))};
  };
  table["group_norm"] = [](const Call& c) -> Results {
    return {group_norm(c.x(), c.integer("num_groups"), c.in("weight"), c.in("bias"),
                       c.get("eps", 1e-5))};
  };
  table["batch_norm"] = batch_normalised;
}

PoolOptions pool_options(const Call& c) {
  PoolOptions options{.padding = c.pair("padding", 0),
                      .dilation = c.pair("dilation", 1),
                      .ceil_mode = c.get("ceil_mode", false),
                      .count_include_pad = c.get("count_include_pad", true)};
  if (c.has("stride")) options.stride = c.pair("stride", 1);
  if (c.has("divisor")) options.divisor_override = c.integer("divisor");
  return options;
}

void add_windows(Table& table) {
  table["conv1d"] = [](const Call& c) -> Results {
    return {conv1d(c.x(), c.in("weight"), c.in("bias"),
                   {.stride = c.pair("stride", 1)[0],
                    .padding = c.pair("padding", 0)[0],
                    .dilation = c.pair("dilation", 1)[0],
                    .groups = c.get<int64_t>("groups", 1)})};
  };
  table["conv2d"] = [](const Call& c) -> Results {
    return {conv2d(c.x(), c.in("weight"), c.in("bias"),
                   {.stride = c.pair("stride", 1),
                    .padding = c.pair("padding", 0),
                    .dilation = c.pair("dilation", 1),
                    .groups = c.get<int64_t>("groups", 1)})};
  };
  table["conv_transpose2d"] = [](const Call& c) -> Results {
    return {conv_transpose2d(c.x(), c.in("weight"), c.in("bias"),
                             {.stride = c.pair("stride", 1),
                              .padding = c.pair("padding", 0),
                              .output_padding = c.pair("output_padding", 0),
                              .dilation = c.pair("dilation", 1),
                              .groups = c.get<int64_t>("groups", 1)})};
  };
  table["max_pool2d"] = [](const Call& c) -> Results {
    return {max_pool2d(c.x(), c.pair("kernel_size", 1), pool_options(c))};
  };
  table["avg_pool2d"] = [](const Call& c) -> Results {
    return {avg_pool2d(c.x(), c.pair("kernel_size", 1), pool_options(c))};
  };
  table["adaptive_avg_pool2d"] = [](const Call& c) -> Results {
    return {adaptive_avg_pool2d(c.x(), c.pair("output_size", 1))};
  };
}

AttentionOptions attention_options(const Call& c) {
  AttentionOptions options{
      .mask = c.in("mask"), .bias = c.in("bias"), .is_causal = c.get("is_causal", false)};
  if (c.has("scale")) options.scale = c.number("scale");
  return options;
}

// B batch, T time, C channels, H heads
Results multi_head(const Call& c) {
  const int64_t B = c.x().size(0), T = c.x().size(1), C = c.x().size(2);
  const int64_t H = c.integer("num_heads");
  const auto heads = [&](const char* weight, const char* bias) {
    const Tensor y_BTC = linear(c.x(), c.in(weight), c.in(bias));
    return transpose(reshape(y_BTC, {B, T, H, C / H}), 1, 2);
  };
  const Tensor y = scaled_dot_product_attention(heads("wq", "bq"), heads("wk", "bk"),
                                                heads("wv", "bv"), attention_options(c));
  return {linear(reshape(transpose(y, 1, 2), {B, T, C}), c.in("wo"), c.in("bo"))};
}

CellWeights cell(const Call& c) { return {c.in("w_ih"), c.in("w_hh"), c.in("b_ih"), c.in("b_hh")}; }

Results lstm_sequence(const Call& c) {
  LstmState state{c.in("h"), c.in("c")};
  Results outputs;
  for (int64_t t = 0; t < c.x().size(0); ++t) {
    state = lstm_cell(select(c.x(), 0, t), state, cell(c));
    outputs.push_back(state.h);
  }
  return {stack(outputs), state.h, state.c};
}

}  // namespace

void add_networks(Table& table) {
  add_losses(table);
  add_norms(table);
  add_windows(table);
  table["sdpa"] = [](const Call& c) -> Results {
    return {scaled_dot_product_attention(c.in("q"), c.in("k"), c.in("v"), attention_options(c))};
  };
  table["mha"] = multi_head;
  table["rnn_cell"] = [](const Call& c) -> Results {
    const bool by_relu = c.get<std::string>("nonlinearity", "tanh") == "relu";
    return {rnn_cell(c.x(), c.in("h"), cell(c), by_relu ? Nonlinearity::relu : Nonlinearity::tanh)};
  };
  table["lstm_cell"] = [](const Call& c) -> Results {
    const LstmState state = lstm_cell(c.x(), {c.in("h"), c.in("c")}, cell(c));
    return {state.h, state.c};
  };
  table["gru_cell"] = [](const Call& c) -> Results {
    return {gru_cell(c.x(), c.in("h"), cell(c))};
  };
  table["lstm"] = lstm_sequence;
}

}  // namespace hero::golden
