#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/memory/allocator.h>
#include <hero/nn/init.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/recurrent.h>

namespace hero::nn {

namespace {

Init within(int64_t hidden) {
  const double bound = hidden > 0 ? 1.0 / std::sqrt(static_cast<double>(hidden)) : 0.0;
  return init::uniform(-bound, bound);
}

void check_sizes(const char* kind, std::pair<int64_t, int64_t> sizes) {
  check(sizes.first > 0 && sizes.second > 0, kind,
        ": input_size and hidden_size must be positive: got ", sizes.first, " and ", sizes.second);
  Shape{sizes.second, sizes.second, 8}.numel(kind);  // rows of weights are multiples of it
}

Tensor zeros_for(const Tensor& x, const Shape& shape) {
  return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

std::string Recurrent::extra_repr() const {
  std::string out = std::to_string(input_size_) + ", " + std::to_string(hidden_size_);
  if (options_.proj_size != 0) out += ", proj_size=" + std::to_string(options_.proj_size);
  if (options_.num_layers != 1) out += ", num_layers=" + std::to_string(options_.num_layers);
  if (!options_.bias) out += ", bias=False";
  if (options_.batch_first) out += ", batch_first=True";
  if (options_.dropout != 0.0) out += ", dropout=" + repr::text(options_.dropout);
  if (options_.bidirectional) out += ", bidirectional=True";
  return out;
}

Recurrent::Recurrent(const char* kind, int64_t gates, std::pair<int64_t, int64_t> sizes,
                     const RecurrentOptions& options)
    : kind_(kind), input_size_(sizes.first), hidden_size_(sizes.second), options_(options) {
  check_sizes(kind, sizes);
  check(options.num_layers > 0, kind, ": num_layers must be positive: got ", options.num_layers);
  check(options.dropout >= 0.0 && options.dropout <= 1.0, kind,
        ": dropout is outside [0, 1]: ", options.dropout);
  check(options.proj_size == 0 || gates == 4, kind, ": only LSTM has a proj_size: got ",
        options.proj_size);
  check(options.proj_size >= 0 && options.proj_size < hidden_size_, kind, ": proj_size ",
        options.proj_size, " is not between 0 and the hidden size, ", hidden_size_);
  const int64_t directions = options.bidirectional ? 2 : 1, rows = gates * hidden_size_;
  core::check_room(kind, options.num_layers);
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    const int64_t inputs = layer == 0 ? input_size_ : directions * output_size();
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string tail = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add_one = [&](const char* name, const Shape& shape, bool wanted) {
        return wanted ? &parameter(name + tail, shape, within(hidden_size_))
                      : &no_parameter(name + tail);
      };
      parameters_.push_back({add_one("weight_ih", {rows, inputs}, true),
                             add_one("weight_hh", {rows, output_size()}, true),
                             add_one("bias_ih", {rows}, options.bias),
                             add_one("bias_hh", {rows}, options.bias)});
      if (options.proj_size > 0) {
        parameters_.back().w_hr = add_one("weight_hr", {options.proj_size, hidden_size_}, true);
      }
    }
  }
}

Tensor Recurrent::forward(const Tensor& x) { return run_all(x, {}).output; }

// Undefined states do not pass through hooks.
LSTMResult Recurrent::run_layers(const Tensor& x, const LstmState& first) {
  Tensors inputs{x};
  if (first.h.defined()) inputs.push_back(first.h);
  if (first.c.defined()) inputs.push_back(first.c);
  const bool has_h = first.h.defined(), has_c = first.c.defined();
  const Tensors outputs = run_hooked(inputs, [&](const Tensors& in) -> Tensors {
    const LSTMResult result =
        run_all(in[0], {has_h ? in[1] : Tensor(), has_c ? in.back() : Tensor()});
    if (!has_cell()) return {result.output, result.state.h};
    return {result.output, result.state.h, result.state.c};
  });
  return {outputs[0], {outputs[1], has_cell() ? outputs[2] : Tensor()}};
}

int64_t Recurrent::size_of(const char* state) const {
  return *state == 'h' ? output_size() : hidden_size_;
}

Tensor Recurrent::first_state(const char* name, const Tensor& given, const Tensor& x,
                              bool batched) const {
  const Shape full{static_cast<int64_t>(parameters_.size()), x.size(1), size_of(name)};
  if (!given.defined()) return zeros_for(x, full);
  const Shape expected = batched ? full : Shape{full[0], full[2]};
  check(given.shape() == expected, kind_, ": ", name, " has shape ", given.shape(),
        "; it should be ", expected);
  return batched ? given : unsqueeze(given, 1);
}

Tensor Recurrent::run_layer(const Tensor& x, const LstmState& first, int64_t layer,
                            std::vector<LstmState>& last) {
  std::vector<Tensor> outputs;
  for (int direction = 0; direction < (options_.bidirectional ? 2 : 1); ++direction) {
    const auto index = static_cast<int64_t>(last.size());
    const LstmState start{first.h[index], has_cell() ? first.c[index] : Tensor()};
    Run result = run(x, start, parameters_[last.size()],
                     direction == 1 ? TimeOrder::reverse : TimeOrder::forward);
    outputs.push_back(result.output);
    last.push_back(result.last);
  }
  const Tensor output = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
  const bool inner = layer + 1 < options_.num_layers;
  return inner ? dropout(output, options_.dropout, training()) : output;
}

LSTMResult Recurrent::run_all(const Tensor& given, const LstmState& first) {
  const bool batched = given.ndim() == 3;
  check(batched || given.ndim() == 2, kind_, ": x must be ",
        options_.batch_first ? "[N, T, I]" : "[T, N, I]", " or [T, I]: got ", given.shape());
  check(given.size(-1) == input_size_, kind_, ": x has ", given.size(-1),
        " features and the layer takes ", input_size_, ": ", given.shape());
  const bool swap = batched && options_.batch_first;
  Tensor x = batched ? (swap ? transpose(given, 0, 1) : given) : unsqueeze(given, 1);
  check(x.size(0) > 0, kind_, ": the sequence is empty: ", given.shape());
  const LstmState start{first_state("h", first.h, x, batched),
                        has_cell() ? first_state("c", first.c, x, batched) : Tensor()};
  std::vector<LstmState> last;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    x = run_layer(x, start, layer, last);
  }
  std::vector<Tensor> h, c;
  for (const LstmState& state : last) {
    h.push_back(batched ? state.h : state.h.squeeze(0));
    if (has_cell()) c.push_back(batched ? state.c : state.c.squeeze(0));
  }
  const Tensor output = batched ? (swap ? transpose(x, 0, 1) : x) : x.squeeze(1);
  return {output, {stack(h), has_cell() ? stack(c) : Tensor()}};
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options)
    : Recurrent("RNN", 1, {input_size, hidden_size},
                {options.num_layers, options.bias, options.batch_first, options.dropout,
                 options.bidirectional}),
      nonlinearity_(options.nonlinearity) {}

Recurrent::Run RNN::run(const Tensor& x, const LstmState& first, const CellParameters& by,
                        TimeOrder order) const {
  const RnnOutput result = rnn(x, first.h, by.weights(), nonlinearity_, order);
  return {result.output, {result.h, Tensor()}};
}

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("LSTM", 4, {input_size, hidden_size}, options) {}

Recurrent::Run LSTM::run(const Tensor& x, const LstmState& first, const CellParameters& by,
                         TimeOrder order) const {
  if (by.w_hr != nullptr) return run_projected(x, first, by, order);
  const LstmOutput result = lstm(x, first, by.weights(), order);
  return {result.output, {result.h, result.c}};
}

// Step by step, with a product between the states: h = W_hr o tanh(c).
Recurrent::Run LSTM::run_projected(const Tensor& x, const LstmState& first,
                                   const CellParameters& by, TimeOrder order) {
  const CellWeights weights = by.weights();
  const Tensor inputs = linear(x, weights.w_ih, weights.b_ih);
  const int64_t steps = x.size(0);
  std::vector<Tensor> outputs(static_cast<size_t>(steps));
  LstmState state = first;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = order == TimeOrder::reverse ? steps - 1 - i : i;
    const Tensor all = inputs.select(0, t) + linear(state.h, weights.w_hh, weights.b_hh);
    const std::vector<Tensor> gates = chunk(all, 4, -1);
    state.c = sigmoid(gates[1]) * state.c + sigmoid(gates[0]) * tanh(gates[2]);
    state.h = linear(sigmoid(gates[3]) * tanh(state.c), *by.w_hr);
    outputs[static_cast<size_t>(t)] = state.h;
  }
  return {stack(outputs), state};
}

GRU::GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent("GRU", 3, {input_size, hidden_size}, options) {}

Recurrent::Run GRU::run(const Tensor& x, const LstmState& first, const CellParameters& by,
                        TimeOrder order) const {
  const RnnOutput result = gru(x, first.h, by.weights(), order);
  return {result.output, {result.h, Tensor()}};
}

std::string RecurrentCell::extra_repr() const {
  return std::to_string(input_size_) + ", " + std::to_string(hidden_size_) +
         (parameters_.b_ih->defined() ? "" : ", bias=False");
}

RecurrentCell::RecurrentCell(const char* kind, int64_t gates, std::pair<int64_t, int64_t> sizes,
                             bool bias)
    : input_size_(sizes.first), hidden_size_(sizes.second) {
  check_sizes(kind, sizes);
  const int64_t rows = gates * hidden_size_;
  const Init values = within(hidden_size_);
  parameters_ = {&parameter("weight_ih", {rows, input_size_}, values),
                 &parameter("weight_hh", {rows, hidden_size_}, values),
                 bias ? &parameter("bias_ih", {rows}, values) : &no_parameter("bias_ih"),
                 bias ? &parameter("bias_hh", {rows}, values) : &no_parameter("bias_hh")};
}

Tensor RecurrentCell::state_for(const Tensor& x, const Tensor& given) const {
  if (given.defined()) return given;
  Shape shape = x.shape();
  check(shape.size() == 1 || shape.size() == 2, "recurrent cell: x must be [N, I] or [I]: got ",
        shape);
  shape.back() = hidden_size_;
  return zeros_for(x, shape);
}

RecurrentResult RNN::operator()(const Tensor& x, const Tensor& h) {
  const LSTMResult result = run_layers(x, {h, Tensor()});
  return {result.output, result.state.h};
}
PackedRecurrentResult RNN::operator()(const PackedSequence& x, const Tensor& h) {
  const PackedLSTMResult result = run_packed(x, {h, Tensor()});
  return {result.output, result.state.h};
}

LSTMResult LSTM::operator()(const Tensor& x, const LstmState& state) {
  return run_layers(x, state);
}
PackedLSTMResult LSTM::operator()(const PackedSequence& x, const LstmState& state) {
  return run_packed(x, state);
}

RecurrentResult GRU::operator()(const Tensor& x, const Tensor& h) {
  const LSTMResult result = run_layers(x, {h, Tensor()});
  return {result.output, result.state.h};
}
PackedRecurrentResult GRU::operator()(const PackedSequence& x, const Tensor& h) {
  const PackedLSTMResult result = run_packed(x, {h, Tensor()});
  return {result.output, result.state.h};
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options)
    : RecurrentCell("RNNCell", 1, {input_size, hidden_size}, options.bias),
      nonlinearity_(options.nonlinearity) {}

std::string RNNCell::extra_repr() const {
  const bool relu = nonlinearity_ == Nonlinearity::relu;
  return RecurrentCell::extra_repr() + (relu ? ", nonlinearity=relu" : "");
}

Tensor RNNCell::operator()(const Tensor& x, const Tensor& h) {
  return run_hooked({x, state_for(x, h)}, [&](const Tensors& in) -> Tensors {
    return {rnn_cell(in[0], in[1], weights(), nonlinearity_)};
  })[0];
}

Tensor RNNCell::forward(const Tensor& x) {
  return rnn_cell(x, state_for(x, {}), weights(), nonlinearity_);
}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& options)
    : RecurrentCell("LSTMCell", 4, {input_size, hidden_size}, options.bias) {}

LstmState LSTMCell::operator()(const Tensor& x, const LstmState& state) {
  const Tensors inputs{x, state_for(x, state.h), state_for(x, state.c)};
  const Tensors outputs = run_hooked(inputs, [&](const Tensors& in) -> Tensors {
    const LstmState next = lstm_cell(in[0], {in[1], in[2]}, weights());
    return {next.h, next.c};
  });
  return {outputs[0], outputs[1]};
}

Tensor LSTMCell::forward(const Tensor& x) {
  return lstm_cell(x, {state_for(x, {}), state_for(x, {})}, weights()).h;
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options)
    : RecurrentCell("GRUCell", 3, {input_size, hidden_size}, options.bias) {}

Tensor GRUCell::operator()(const Tensor& x, const Tensor& h) {
  return run_hooked({x, state_for(x, h)}, [&](const Tensors& in) -> Tensors {
    return {gru_cell(in[0], in[1], weights())};
  })[0];
}

Tensor GRUCell::forward(const Tensor& x) { return gru_cell(x, state_for(x, {}), weights()); }

}  // namespace hero::nn
