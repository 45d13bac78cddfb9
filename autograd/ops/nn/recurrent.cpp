// Cells of recurrent networks. N rows, I inputs, H hidden units; gates are blocks of H rows of the
// weights.
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/elementwise/blend.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/recurrent.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace detail {

void check_cell(const char* op, const Tensor& x, const Tensor& h, const CellWeights& weights,
                int64_t gates) {
  check(x.ndim() == 1 || x.ndim() == 2, op, ": x must be [N, I] or [I]: got shape ", x.shape());
  const int64_t hidden = h.ndim() > 0 ? h.size(-1) : 0;
  Shape expected = x.shape();
  expected.back() = hidden;
  check(h.shape() == expected, op, ": state ", h.shape(), " does not fit x ", x.shape());
  const Shape ih{gates * hidden, x.size(-1)}, hh{gates * hidden, hidden}, bias{gates * hidden};
  const auto check_one = [op](const char* what, const Tensor& weight, const Shape& shape) {
    check(weight.shape() == shape, op, ": ", what, " has shape ", weight.shape(), "; it should be ",
          shape);
  };
  check_one("w_ih", weights.w_ih, ih);
  check_one("w_hh", weights.w_hh, hh);
  if (weights.b_ih.defined()) check_one("b_ih", weights.b_ih, bias);
  if (weights.b_hh.defined()) check_one("b_hh", weights.b_hh, bias);
}

}  // namespace detail

namespace {

using detail::check_cell, detail::any_half, detail::in_float32, detail::widened;

// Block `index` of the last dimension.
Tensor gate(const Tensor& gates, int64_t index, int64_t hidden) {
  return narrow(gates, -1, index * hidden, hidden);
}

std::vector<Tensor> tensors_of(const Tensor& x, const Tensor& h, const CellWeights& w) {
  return {x, h, w.w_ih, w.w_hh, w.b_ih, w.b_hh};
}

}  // namespace

Tensor rnn_cell(const Tensor& x, const Tensor& h, const CellWeights& weights,
                Nonlinearity nonlinearity) {
  detail::check_defined("rnn_cell",
                        {{"x", x}, {"h", h}, {"w_ih", weights.w_ih}, {"w_hh", weights.w_hh}});
  check_cell("rnn_cell", x, h, weights, 1);
  if (any_half(x, h, weights.w_ih, weights.w_hh, weights.b_ih, weights.b_hh)) {
    return in_float32("rnn_cell", AutocastRule::fallthrough, tensors_of(x, h, weights),
                      [=](const auto& in) {
                        return rnn_cell(in[0], in[1], {in[2], in[3], in[4], in[5]}, nonlinearity);
                      });
  }
  const Tensor sums = linear(x, weights.w_ih, weights.b_ih) + linear(h, weights.w_hh, weights.b_hh);
  return nonlinearity == Nonlinearity::tanh ? tanh(sums) : relu(sums);
}

LstmState lstm_cell(const Tensor& x, const LstmState& state, const CellWeights& weights) {
  detail::check_defined(
      "lstm_cell",
      {{"x", x}, {"h", state.h}, {"c", state.c}, {"w_ih", weights.w_ih}, {"w_hh", weights.w_hh}});
  check_cell("lstm_cell", x, state.h, weights, 4);
  check(state.c.shape() == state.h.shape(), "lstm_cell: c ", state.c.shape(),
        " has not the shape of h ", state.h.shape());
  if (any_half(x, state.h, state.c, weights.w_ih, weights.w_hh)) {
    // Two outputs with gradients: the casts are recorded.
    const CellWeights wide{widened(weights.w_ih), widened(weights.w_hh), widened(weights.b_ih),
                           widened(weights.b_hh)};
    const LstmState next = lstm_cell(widened(x), {widened(state.h), widened(state.c)}, wide);
    const DType dtype = promote(promote(x.dtype(), state.h.dtype()), state.c.dtype());
    return {next.h.to(dtype), next.c.to(dtype)};
  }
  const int64_t hidden = state.h.size(-1);
  const Tensor gates =
      linear(x, weights.w_ih, weights.b_ih) + linear(state.h, weights.w_hh, weights.b_hh);
  const Tensor input = sigmoid(gate(gates, 0, hidden));
  const Tensor forget = sigmoid(gate(gates, 1, hidden));
  const Tensor candidate = tanh(gate(gates, 2, hidden));
  const Tensor output = sigmoid(gate(gates, 3, hidden));
  const Tensor c = forget * state.c + input * candidate;
  return {output * tanh(c), c};
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const CellWeights& weights) {
  detail::check_defined("gru_cell",
                        {{"x", x}, {"h", h}, {"w_ih", weights.w_ih}, {"w_hh", weights.w_hh}});
  check_cell("gru_cell", x, h, weights, 3);
  if (any_half(x, h, weights.w_ih, weights.w_hh, weights.b_ih, weights.b_hh)) {
    return in_float32("gru_cell", AutocastRule::fallthrough, tensors_of(x, h, weights),
                      [](const auto& in) {
                        return gru_cell(in[0], in[1], {in[2], in[3], in[4], in[5]});
                      });
  }
  const int64_t hidden = h.size(-1);
  const Tensor of_x = linear(x, weights.w_ih, weights.b_ih);
  const Tensor of_h = linear(h, weights.w_hh, weights.b_hh);
  const Tensor reset = sigmoid(gate(of_x, 0, hidden) + gate(of_h, 0, hidden));
  const Tensor update = sigmoid(gate(of_x, 1, hidden) + gate(of_h, 1, hidden));
  const Tensor candidate = tanh(addcmul(gate(of_x, 2, hidden), reset, gate(of_h, 2, hidden)));
  return record(detail::Blend{}, candidate, h, update);
}

}  // namespace hero
