#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/random.h>

namespace hero::test {

namespace {

const char* const kFlat = "one element has no spread to normalise by";

Rows loss_rows() {
  const Domain low{-2.0, -0.1}, share{0.1, 0.9};
  const Shape s = {3, 4};
  const auto target = [](const Tensor& x) { return indices({x.size(0)}, x.size(1), x); };
  Rows rows = {
      {"cross_entropy",
       {{s}},
       [target](const Tensors& x) {
         return cross_entropy(x[0], target(x[0]), {.label_smoothing = 0.1});
       }},
      {"cross_entropy (sum)",
       {{s}},
       [target](const Tensors& x) {
         return cross_entropy(x[0], target(x[0]), {.reduction = Reduction::sum, .ignore_index = 1});
       }},
      {"linear_cross_entropy",
       {{s}, {{5, 4}}, {{5}}},
       [](const Tensors& x) {
         return linear_cross_entropy(
             x[0], x[1], indices({x[0].size(0)}, x[1].size(0), x[0]),
             {.linear_bias = x[2], .label_smoothing = 0.1, .batch_chunk_size = 2});
       }},
      {"linear_cross_entropy (sum)",
       {{s}, {{5, 4}}},
       [](const Tensors& x) {
         return linear_cross_entropy(x[0], x[1], indices({x[0].size(0)}, x[1].size(0), x[0]),
                                     {.reduction = Reduction::sum, .ignore_index = 1});
       }},
      {"linear_cross_entropy (probabilities)",
       {{s}, {{5, 4}}, {{5}}},
       [](const Tensors& x) {
         const Tensor even = full({x[0].size(0), x[1].size(0)}, 0.2,
                                  {.dtype = x[0].dtype(), .device = x[0].device()});
         return linear_cross_entropy(x[0], x[1], even,
                                     {.linear_bias = x[2], .batch_chunk_size = 2});
       }},
      {"nll_loss", {{s, low}}, [target](const Tensors& x) { return nll_loss(x[0], target(x[0])); }},
      {"mse_loss", {{s}, {s}}, [](const Tensors& x) { return mse_loss(x[0], x[1]); }},
      {"l1_loss", {{s}, {s}}, [](const Tensors& x) { return l1_loss(x[0], x[1]); }},
      {"huber_loss", {{s}, {s}}, [](const Tensors& x) { return huber_loss(x[0], x[1], 0.7); }},
      {"smooth_l1_loss",
       {{s}, {s}},
       [](const Tensors& x) { return smooth_l1_loss(x[0], x[1], 0.7); }},
      {"bce_with_logits",
       {{s}, {s, share}},
       [](const Tensors& x) { return bce_with_logits(x[0], x[1]); }},
      {"kl_div", {{s, low}, {s, share}}, [](const Tensors& x) { return kl_div(x[0], x[1]); }},
      {"kl_div (logarithm)",
       {{s, low}, {s, low}},
       [](const Tensors& x) { return kl_div(x[0], x[1], KlReduction::sum, true); }},
  };
  for (OpRow& row : rows) row.skip[Layout::empty] = kMeanOfNothing;
  rows.push_back({"cosine_similarity", {{s}, {s}}, [](const Tensors& x) {
                    return cosine_similarity(x[0], x[1], 1);
                  }});
  return rows;
}

Rows normal_rows() {
  const auto layer = [](const Tensors& x) {
    return layer_norm(x[0], {x[0].size(-1)}, x[1], x[2], 0.1);
  };
  Rows rows = {
      {"linear_relu",
       {{{2, 3}}, {{4, 3}}, {{4}}},
       [](const Tensors& x) { return linear_relu(x[0], x[1], x[2]); }},
      {"linear_gelu",
       {{{2, 3}}, {{4, 3}}, {{4}}},
       [](const Tensors& x) { return linear_gelu(x[0], x[1], x[2]); }},
      {"linear_gelu (tanh)",
       {{{2, 3}}, {{4, 3}}, {{4}}},
       [](const Tensors& x) { return linear_gelu(x[0], x[1], x[2], Gelu::tanh); }},
      {"softmax", {{{2, 3}}}, [](const Tensors& x) { return softmax(x[0], 1); }},
      {"softmax", {{{3, 2}}}, [](const Tensors& x) { return softmax(x[0], 0); }},
      {"log_softmax", {{{2, 3}}}, [](const Tensors& x) { return log_softmax(x[0], -1); }},
      {"layer_norm", {{{2, 3}}, {{3}}, {{3}}}, layer},
      {"rms_norm", {{{2, 3}}, {{3}}}, [](const Tensors& x) { return rms_norm(x[0], x[1], 0.1); }},
      sized("group_norm", {{{2, 4, 3}}, {{4}}, {{4}}},
            [](const Tensors& x) { return group_norm(x[0], 2, x[1], x[2], 0.1); }),
      {"batch_norm",
       {{{3, 2, 2}}, {{2}}, {{2}}},
       [](const Tensors& x) {
         return batch_norm(x[0], {}, {},
                           {.weight = x[1], .bias = x[2], .training = true, .eps = 0.1});
       }},
      {"dropout",
       {{{2, 3}}},
       [](const Tensors& x) {
         manual_seed(5);  // the same elements each time
         return dropout(x[0], 0.5);
       }},
  };
  for (size_t i = 0; i < 3; ++i) rows[i].empty = {{0, 3}, {4, 3}, {4}};
  for (size_t i = 6; i < 8; ++i) rows[i].empty = {{0, 3}, {3}, {3}};
  rows[9].skip = {{Layout::empty, kMeanOfNothing}, {Layout::single, kFlat}};
  rows.push_back({"add_layer_norm", {{{2, 3}}, {{2, 3}}, {{3}}, {{3}}}, [](const Tensors& x) {
                    const auto [sum, norm] =
                        add_layer_norm(x[0], x[1], {x[0].size(-1)}, x[2], x[3], 0.1);
                    return Tensors{sum, norm};
                  }});
  rows.back().empty = {{0, 3}, {0, 3}, {3}, {3}};
  rows.push_back({"add_rms_norm", {{{2, 3}}, {{2, 3}}, {{3}}}, [](const Tensors& x) {
                    const auto [sum, norm] = add_rms_norm(x[0], x[1], x[2], 0.1);
                    return Tensors{sum, norm};
                  }});
  rows.back().empty = {{0, 3}, {0, 3}, {3}};
  for (const Gelu kind : {Gelu::erf, Gelu::tanh}) {
    rows.push_back({kind == Gelu::erf ? "linear_gelu_linear" : "linear_gelu_linear (tanh)",
                    {{{2, 3}}, {{4, 3}}, {{2, 4}}, {{4}}, {{2}}},
                    [kind](const Tensors& x) {
                      return linear_gelu_linear(x[0], {x[1], x[3]}, {x[2], x[4]}, kind);
                    }});
    rows.back().empty = {{0, 3}, {4, 3}, {2, 4}, {4}, {2}};
  }
  return rows;
}

Rows window_rows() {
  return {
      sized("conv1d", {{{2, 2, 5}}, {{3, 2, 3}}, {{3}}},
            [](const Tensors& x) { return conv1d(x[0], x[1], x[2], {.stride = 2, .padding = 1}); }),
      sized("conv2d", {{{1, 2, 4, 3}}, {{2, 2, 2, 2}}, {{2}}},
            [](const Tensors& x) {
              return conv2d(x[0], x[1], x[2], {.stride = {2, 1}, .padding = {1, 0}});
            }),
      sized("conv2d_relu", {{{2, 2, 4, 3}}, {{2, 2, 2, 2}}, {{2}}},
            [](const Tensors& x) {
              return conv2d_relu(x[0], x[1], x[2], {.padding = {1, 0}});
            }),
      sized("conv2d (groups)", {{{1, 2, 4, 4}}, {{4, 1, 2, 2}}},
            [](const Tensors& x) {
              return conv2d(x[0], x[1], {}, {.dilation = {1, 2}, .groups = 2});
            }),
      sized(
          "conv_transpose2d", {{{1, 2, 2, 3}}, {{2, 2, 2, 2}}, {{2}}},
          [](const Tensors& x) {
            return conv_transpose2d(x[0], x[1], x[2], {.stride = {2, 1}, .output_padding = {1, 0}});
          }),
      sized("max_pool2d", {{{2, 2, 4, 4}}},
            [](const Tensors& x) {
              return max_pool2d(x[0], {2, 2}, {.padding = {1, 0}});
            }),
      sized("avg_pool2d", {{{1, 2, 4, 4}}},
            [](const Tensors& x) {
              return avg_pool2d(x[0], {3, 2}, {.stride = Pair{1, 2}, .padding = {1, 0}});
            }),
      sized("adaptive_avg_pool2d", {{{1, 2, 4, 5}}},
            [](const Tensors& x) {
              return adaptive_avg_pool2d(x[0], {3, 2});
            }),
      sized("max_pool1d", {{{2, 2, 5}}},
            [](const Tensors& x) { return max_pool1d(x[0], 2, {.ceil_mode = true}); }),
      sized("avg_pool1d", {{{2, 2, 5}}},
            [](const Tensors& x) { return avg_pool1d(x[0], 3, {.stride = 2, .padding = 1}); }),
      sized("adaptive_avg_pool1d", {{{2, 2, 5}}},
            [](const Tensors& x) { return adaptive_avg_pool1d(x[0], 2); }),
  };
}

Rows sequence_rows() {
  const std::vector<Input> attended = {{{2, 3, 2}}, {{2, 4, 2}}, {{2, 4, 3}}};
  const auto weights = [](const Tensors& x, size_t first) {
    return CellWeights{x[first], x[first + 1], x[first + 2], x[first + 3]};
  };
  const auto cell = [](int64_t gates) {
    return std::vector<Input>{{{2, 3}},         {{2, 2}},      {{2 * gates, 3}},
                              {{2 * gates, 2}}, {{2 * gates}}, {{2 * gates}}};
  };
  std::vector<Input> lstm_inputs = cell(4);
  lstm_inputs.insert(lstm_inputs.begin() + 2, Input{{2, 2}});
  // The same with x [T, N, I].
  const auto sequence = [](std::vector<Input> inputs) {
    inputs[0].shape = {3, 2, 3};
    return inputs;
  };
  return {
      sized("scaled_dot_product_attention", attended,
            [](const Tensors& x) {
              return scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true});
            }),
      sized("scaled_dot_product_attention (mask, bias)", attended,
            [](const Tensors& x) {
              const Tensor mask = indices({3, 4}, 5, x[0]) > 0;
              return scaled_dot_product_attention(
                  x[0], x[1], x[2], {.mask = mask, .bias = matmul(x[0], x[1].t()), .scale = 0.5});
            }),
      sized("rnn_cell", cell(1),
            [weights](const Tensors& x) { return rnn_cell(x[0], x[1], weights(x, 2)); }),
      sized("lstm_cell", lstm_inputs,
            [weights](const Tensors& x) {
              const LstmState state = lstm_cell(x[0], {x[1], x[2]}, weights(x, 3));
              return Tensors{state.h, state.c};
            }),
      sized("gru_cell", cell(3),
            [weights](const Tensors& x) { return gru_cell(x[0], x[1], weights(x, 2)); }),
      sized("scaled_dot_product_attention (grouped heads)",
            {{{1, 4, 3, 2}}, {{1, 2, 3, 2}}, {{1, 2, 3, 2}}},
            [](const Tensors& x) {
              return scaled_dot_product_attention(x[0], x[1], x[2],
                                                  {.is_causal = true, .enable_gqa = true});
            }),
      sized("rnn", sequence(cell(1)),
            [weights](const Tensors& x) {
              const RnnOutput y = rnn(x[0], x[1], weights(x, 2), Nonlinearity::tanh);
              return Tensors{y.output, y.h};
            }),
      sized("lstm", sequence(lstm_inputs),
            [weights](const Tensors& x) {
              const LstmOutput y = lstm(x[0], {x[1], x[2]}, weights(x, 3));
              return Tensors{y.output, y.h, y.c};
            }),
      sized("lstm (reverse)", sequence(lstm_inputs),
            [weights](const Tensors& x) {
              const LstmOutput y = lstm(x[0], {x[1], x[2]}, weights(x, 3), TimeOrder::reverse);
              return Tensors{y.output, y.c};
            }),
      sized("gru", sequence(cell(3)),
            [weights](const Tensors& x) {
              const RnnOutput y = gru(x[0], x[1], weights(x, 2), TimeOrder::reverse);
              return Tensors{y.output, y.h};
            }),
  };
}

}  // namespace

Rows network_rows() {
  Rows rows = loss_rows();
  for (const Rows& part : {normal_rows(), window_rows(), sequence_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

TEST_CASE("losses and normalisation: layouts and derivatives") {
  check_rows(loss_rows());
  check_rows(normal_rows());
}

TEST_CASE("windows, attention and recurrence: layouts and derivatives") {
  check_rows(window_rows());
  check_rows(sequence_rows());
}

}  // namespace hero::test
