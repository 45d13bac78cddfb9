// Cells of recurrent networks. N rows, I inputs, H hidden units; gates are blocks of H rows of the
// weights.
#include <hero/autograd/nn_ops.h>

namespace hero {

namespace {

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

// Block `index` of the last dimension.
Tensor gate(const Tensor& gates, int64_t index, int64_t hidden) {
  return narrow(gates, -1, index * hidden, hidden);
}

}  // namespace

Tensor rnn_cell(const Tensor& x, const Tensor& h, const CellWeights& weights,
                Nonlinearity nonlinearity) {
  check_cell("rnn_cell", x, h, weights, 1);
  const Tensor sums = linear(x, weights.w_ih, weights.b_ih) + linear(h, weights.w_hh, weights.b_hh);
  return nonlinearity == Nonlinearity::tanh ? tanh(sums) : relu(sums);
}

LstmState lstm_cell(const Tensor& x, const LstmState& state, const CellWeights& weights) {
  check_cell("lstm_cell", x, state.h, weights, 4);
  check(state.c.shape() == state.h.shape(), "lstm_cell: c ", state.c.shape(),
        " has not the shape of h ", state.h.shape());
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
  check_cell("gru_cell", x, h, weights, 3);
  const int64_t hidden = h.size(-1);
  const Tensor of_x = linear(x, weights.w_ih, weights.b_ih);
  const Tensor of_h = linear(h, weights.w_hh, weights.b_hh);
  const Tensor reset = sigmoid(gate(of_x, 0, hidden) + gate(of_h, 0, hidden));
  const Tensor update = sigmoid(gate(of_x, 1, hidden) + gate(of_h, 1, hidden));
  const Tensor candidate = tanh(addcmul(gate(of_x, 2, hidden), reset, gate(of_h, 2, hidden)));
  return lerp(candidate, h, update);
}

namespace {

void check_sequence(const char* op, const Tensor& x) {
  check(x.ndim() == 3, op, ": x must be [T, N, I], time first: got shape ", x.shape());
}

// Calls step(x_t) in the order of time and stacks what it returns in the order of x.
template <class Step>
Tensor each_step(const Tensor& x, const Tensor& h, TimeOrder order, Step&& step) {
  const int64_t count = x.size(0);
  if (count == 0) {
    return Tensor(Array::empty({0, h.size(0), h.size(1)}, h.dtype(), h.device()));
  }
  const std::vector<Tensor> inputs = unbind(x, 0);
  std::vector<Tensor> outputs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t t = order == TimeOrder::forward ? i : inputs.size() - 1 - i;
    outputs[t] = step(inputs[t]);
  }
  return stack(outputs, 0);
}

}  // namespace

RnnOutput rnn(const Tensor& x, const Tensor& h0, const CellWeights& weights,
              Nonlinearity nonlinearity, TimeOrder order) {
  check_sequence("rnn", x);
  Tensor h = h0;
  const Tensor output = each_step(
      x, h0, order, [&](const Tensor& x_t) { return h = rnn_cell(x_t, h, weights, nonlinearity); });
  return {output, h};
}

LstmOutput lstm(const Tensor& x, const LstmState& state, const CellWeights& weights,
                TimeOrder order) {
  check_sequence("lstm", x);
  LstmState now = state;
  const Tensor output = each_step(x, state.h, order, [&](const Tensor& x_t) {
    now = lstm_cell(x_t, now, weights);
    return now.h;
  });
  return {output, now.h, now.c};
}

RnnOutput gru(const Tensor& x, const Tensor& h0, const CellWeights& weights, TimeOrder order) {
  check_sequence("gru", x);
  Tensor h = h0;
  const Tensor output =
      each_step(x, h0, order, [&](const Tensor& x_t) { return h = gru_cell(x_t, h, weights); });
  return {output, h};
}

}  // namespace hero
