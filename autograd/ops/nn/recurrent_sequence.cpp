// Recurrent layers over whole sequences. T steps, N rows, I inputs, H hidden units. Products with
// x, and the gradients of weights, are one product over all steps each; a step is one product with
// h and one pass over the gates.
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/recurrent.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

namespace k = core::kernels;

// [note: halves in a sequence] Products read halves and give float32 sums, in which gates are
// computed and kept; so is c, while h is rounded at every step, and the gradients of sums on the
// way back, because the next product reads them. A GPU's kernels keep halves throughout, with
// float32 inside.
enum class Cell { tanh, relu, lstm, gru };

int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
const char* name_of(Cell cell) {
  return cell == Cell::lstm ? "lstm" : cell == Cell::gru ? "gru" : "rnn";
}

void check_sequence(const char* op, const Tensor& x) {
  check(x.ndim() == 3, op, ": x must be [T, N, I], time first: got shape ", x.shape());
}

// Calls step(x_t) in the order of time and stacks what it returns in the order of x.
template <class Step>
Tensor each_step(const Tensor& x, const Tensor& h, TimeOrder order, Step&& step) {
  if (x.size(0) == 0) {
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

// The definition: output, h and, for lstm, c. `state` is h and perhaps c.
std::vector<Tensor> composed_sequence(Cell cell, TimeOrder order, const Tensor& x,
                                      const std::vector<Tensor>& state,
                                      const CellWeights& weights) {
  std::vector<Tensor> now = state;
  const Tensor output = each_step(x, state[0], order, [&](const Tensor& x_t) {
    if (cell == Cell::lstm) {
      const LstmState next = lstm_cell(x_t, {now[0], now[1]}, weights);
      now = {next.h, next.c};
    } else if (cell == Cell::gru) {
      now[0] = gru_cell(x_t, now[0], weights);
    } else {
      const auto kind = cell == Cell::tanh ? Nonlinearity::tanh : Nonlinearity::relu;
      now[0] = rnn_cell(x_t, now[0], weights, kind);
    }
    return now[0];
  });
  now.insert(now.begin(), output);
  return now;
}

// Inputs: x, h, c (lstm), w_ih, w_hh, then b_ih and b_hh if given. Outputs as composed_sequence.
struct Sequence : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  static constexpr unsigned kSaveInputs = ~0u;
  static constexpr unsigned kSaveOutputs = 1;  // output: its memory is that of the states
  Cell cell;
  TimeOrder order;
  bool has_bias;
  // [T, N, G H] and [T + 1, N, H]: here while forward or backward runs, between them with stash().
  // See [note: halves in a sequence] for their dtypes.
  Array gates, of_h, states, cells;
  Sequence(Cell kind, TimeOrder o, bool bias) : cell(kind), order(o), has_bias(bias) {}
  const char* name() const override { return name_of(cell); }

  int weights_at() const { return cell == Cell::lstm ? 3 : 2; }
  // Slots of the state before and after step t of T; outputs lie in the order of x.
  int64_t before(int64_t t) const { return order == TimeOrder::forward ? t : t + 1; }
  int64_t after(int64_t t) const { return order == TimeOrder::forward ? t + 1 : t; }
  int64_t nth(int64_t i, int64_t count) const {
    return order == TimeOrder::forward ? i : count - 1 - i;
  }
  static Array flat(const Array& x) { return x.reshape({x.size(0) * x.size(1), x.size(2)}); }

  // Memory of its own.
  static Array own(const Array& x, DType dtype) {
    return x.dtype() == dtype ? x.clone() : x.to(dtype);
  }
  static DType wide_of(const Array& x) { return detail::fused_dtype(x.dtype(), x.device()); }

  // The sums over x, with every bias that may be added to them.
  struct SumsOfX {
    Array x, bias;
    core::PackedMatrix w;
    int64_t at_once;  // steps
  };
  SumsOfX sums_of_x(std::span<const Array> in) const {
    const auto at = static_cast<size_t>(weights_at());
    core::Backend& device = core::backend(in[0].device());
    SumsOfX sums{
        in[0].contiguous(), {}, device.run(core::call::PackMatrix{in[at].t()}), in[0].size(0)};
    // On the host the sums are in its caches when their step reads them.
    constexpr int64_t kRowsAtOnce = 128;
    if (core::is_host_memory(in[0].device())) {
      sums.at_once = std::max<int64_t>(1, kRowsAtOnce / std::max<int64_t>(1, in[0].size(1)));
    }
    if (!has_bias) return sums;
    // In a gru the reset gate multiplies the bias of its last block.
    sums.bias = detail::fused_operand(in[at + 2]);
    if (cell != Cell::gru) {
      sums.bias = core::map<k::Add>(sums.bias, detail::fused_operand(in[at + 3]));
    }
    return sums;
  }
  // Those of the i-th step, in the order of the walk, and of some after it.
  void add_up(const SumsOfX& sums, int64_t i) const {
    const int64_t count = gates.size(0), steps = std::min(sums.at_once, count - i);
    const int64_t first = order == TimeOrder::forward ? i : count - i - steps;
    const Array to = flat(gates.slice(0, first, first + steps));
    core::Backend& device = core::backend(to.device());
    device.run(core::call::MatmulPacked{flat(sums.x.slice(0, first, first + steps)), sums.w, to});
    if (has_bias)
      device.run(core::call::BiasActivation{core::Activation::none, &sums.bias, to, to});
  }

  std::vector<Array> forward(std::span<const Array> in) {
    const int64_t count = in[0].size(0), rows = in[1].size(0), hidden = in[1].size(1);
    const auto at = static_cast<size_t>(weights_at());
    core::Backend& device = core::backend(in[0].device());
    const SumsOfX sums_of = sums_of_x(in);
    gates = Array::empty({count, rows, in[at].size(0)}, wide_of(in[0]), in[0].device());
    states = Array::empty({count + 1, rows, hidden}, in[1].dtype(), in[1].device());
    device.run(core::call::Copy{in[1], states.select(0, before(nth(0, count)))});
    if (cell == Cell::lstm) {
      cells = Array::empty(states.shape(), gates.dtype(), states.device());
      device.run(core::call::Copy{in[2], cells.select(0, before(nth(0, count)))});
    }
    const bool keeps = cell == Cell::gru;  // its backward needs the sums over h
    of_h = Array::empty({keeps ? count : 1, rows, gates.size(2)}, gates.dtype(), gates.device());
    const core::PackedMatrix w =
        device.run(core::call::PackMatrix{in[at + 1].t()});  // read in every step
    const Array bias = has_bias && keeps ? detail::fused_operand(in[at + 3]) : Array();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t t = nth(i, count);
      if (i % sums_of.at_once == 0) add_up(sums_of, i);
      const Array sums = of_h.select(0, keeps ? t : 0);
      device.run(core::call::MatmulPacked{states.select(0, before(t)), w, sums});
      if (bias.defined()) {
        device.run(core::call::BiasActivation{core::Activation::none, &bias, sums, sums});
      }
      step(t, sums);
    }
    const Array output = states.slice(0, after(0), after(0) + count);
    std::vector<Array> outputs{output, states.select(0, after(nth(count - 1, count))).clone()};
    if (cell == Cell::lstm) {
      outputs.push_back(own(cells.select(0, after(nth(count - 1, count))), output.dtype()));
    }
    put_away();
    return outputs;
  }

  void put_away() {
    stash(gates, 0);
    stash(states, 1);
    if (cell == Cell::gru) stash(of_h, 2);
    if (cell == Cell::lstm) stash(cells, 2);
    gates = of_h = states = cells = Array();
  }
  void take_out() {
    gates = stashed(0);
    states = stashed(1);
    if (cell == Cell::gru) of_h = stashed(2);
    if (cell == Cell::lstm) cells = stashed(2);
  }

  void step(int64_t t, const Array& sums) const {
    const Array old = states.select(0, before(t)), h = states.select(0, after(t));
    const Array of_x = gates.select(0, t);
    core::Backend& device = core::backend(h.device());
    if (cell == Cell::lstm) {
      device.run(core::call::CellStep{core::CellKind::lstm, of_x, sums, old,
                                      cells.select(0, before(t)), h, cells.select(0, after(t))});
    } else if (cell == Cell::gru) {
      device.run(core::call::CellStep{core::CellKind::gru, of_x, sums, old, {}, h, {}});
    } else {
      const Array wide = h.dtype() == sums.dtype() ? h : sums;
      core::map_into<k::Add>(wide, of_x, sums);
      if (cell == Cell::tanh) core::map_into<k::Tanh>(wide, wide);
      if (cell == Cell::relu) core::map_into<k::Relu>(wide, wide);
      if (h.dtype() != sums.dtype()) device.run(core::call::Copy{wide, h});
    }
  }

  Grads backward(const Grads& grads) override {
    std::vector<Tensor> in;
    for (int i = 0; i < input_count(); ++i) in.push_back(input(i));
    if (grad_enabled()) {
      return detail::composed_backward(
          *this, in, grads, [this](const std::vector<Tensor>& from) { return composed(from); });
    }
    output();  // an Error where it was changed in place
    take_out();
    const Grads result = fused_backward(in, grads);
    gates = of_h = states = cells = Array();
    return result;
  }

  std::vector<Tensor> composed(const std::vector<Tensor>& in) const {
    const auto at = static_cast<size_t>(weights_at());
    CellWeights weights{in[at], in[at + 1], {}, {}};
    if (has_bias) weights.b_ih = in[at + 2];
    if (has_bias) weights.b_hh = in[at + 3];
    std::vector<Tensor> state{in[1]};
    if (cell == Cell::lstm) state.push_back(in[2]);
    return composed_sequence(cell, order, in[0], state, weights);
  }

  // Backwards in time: gradients of the sums of every step, and of the first state.
  struct Back {
    Array of_x, of_h;  // [T, N, G H], of x's dtype; the same array but for gru
    Array h, c;        // c: for gru, the part of h's that does not go through a product
  };

  Array start(const Grads& grads, int i) const {
    const Array like = states.select(0, 0);
    const DType wide = gates.dtype();
    if (i >= grads.size() || !grads[i].defined()) {
      return Array::zeros(like.shape(), wide, like.device());
    }
    return own(grads[i].array(), wide);
  }

  Back walk_back(const Array& w_hh, const Grads& grads) const {
    const int64_t count = gates.size(0);
    const auto room = [&] { return Array::empty(gates.shape(), states.dtype(), gates.device()); };
    Back back{room(), {}, start(grads, 1), start(grads, 2)};
    back.of_h = cell == Cell::gru ? room() : back.of_x;
    core::Backend& device = core::backend(w_hh.device());
    const core::PackedMatrix w = device.run(core::call::PackMatrix{w_hh});
    const Array g_output = grads[0].defined() ? grads[0].array().contiguous() : Array();
    for (int64_t i = count - 1; i >= 0; --i) {
      const int64_t t = nth(i, count);
      step_back(t, g_output.defined() ? g_output.select(0, t) : Array(), back);
      if (i > 0 || needs(1))
        device.run(core::call::MatmulPacked{back.of_h.select(0, t), w, back.h});
    }
    if (cell == Cell::gru) core::map_into<k::Add>(back.h, back.h, back.c);
    return back;
  }

  void step_back(int64_t t, const Array& g_output, const Back& back) const {
    const Array to = back.of_x.select(0, t), h = states.select(0, after(t));
    core::Backend& device = core::backend(h.device());
    core::call::CellStepBack s{.kind =
                                   cell == Cell::gru ? core::CellKind::gru : core::CellKind::lstm};
    s.gates = gates.select(0, t);
    s.h_before = states.select(0, before(t));
    s.g_h = back.h;
    s.g_output = g_output;
    s.g_c = back.c;
    s.g_of_x = to;
    s.g_of_h = back.of_h.select(0, t);
    if (cell == Cell::lstm) {
      s.c_before = cells.select(0, before(t));
      s.c = cells.select(0, after(t));
      device.run(s);
    } else if (cell == Cell::gru) {
      s.of_h = of_h.select(0, t);
      device.run(s);
    } else {
      const Array& g_h = back.h;
      if (g_output.defined()) core::map_into<k::Add>(g_h, g_h, g_output.to(g_h.dtype()));
      const Array wide = to.dtype() == g_h.dtype() ? to : g_h;
      const Array y = h.to(g_h.dtype());
      if (cell == Cell::tanh) core::map_into<k::TanhBackward>(wide, g_h, y);
      if (cell == Cell::relu) core::map_into<k::ReluBackward>(wide, g_h, y);
      if (to.dtype() != g_h.dtype()) device.run(core::call::Copy{wide, to});
    }
  }

  Grads fused_backward(const std::vector<Tensor>& in, const Grads& grads) const {
    const auto at = static_cast<size_t>(weights_at());
    const int64_t count = gates.size(0);
    const Back back = walk_back(in[at + 1].array(), grads);
    const Array g_x = flat(back.of_x), g_h = flat(back.of_h);
    const Array old = flat(states.slice(0, before(0), before(0) + count));
    Grads result;
    result.resize(input_count());
    const auto give = [&](size_t i, auto&& make) {
      if (needs(static_cast<int>(i))) result[static_cast<int>(i)] = Tensor(make());
    };
    give(0, [&] { return core::matmul(g_x, in[at].array()).reshape(in[0].shape()); });
    give(1, [&] { return back.h.to(states.dtype()); });
    if (cell == Cell::lstm) give(2, [&] { return back.c.to(states.dtype()); });
    give(at, [&] { return core::matmul(g_x.t(), flat(in[0].array())); });
    give(at + 1, [&] { return core::matmul(g_h.t(), old); });
    if (!has_bias) return result;
    give(at + 2, [&] { return core::reduce(core::ReduceKind::sum, g_x, {0}); });
    give(at + 3, [&] {
      // But for gru it is the same sum.
      const Tensor& other = result[static_cast<int>(at) + 2];
      if (cell != Cell::gru && other.defined()) return other.array().clone();
      return core::reduce(core::ReduceKind::sum, g_h, {0});
    });
    return result;
  }
};

// Operands of several dtypes or devices go step by step.
bool is_fused(const std::vector<Tensor>& inputs) {
  for (const Tensor& input : inputs) {
    if (input.dtype() != inputs[0].dtype() || input.device() != inputs[0].device()) return false;
  }
  return is_floating(inputs[0].dtype());
}

std::vector<Tensor> run(Cell cell, TimeOrder order, const Tensor& x,
                        const std::vector<Tensor>& state, const CellWeights& weights) {
  const char* op = name_of(cell);
  check_sequence(op, x);
  const Tensor& c = state.size() > 1 ? state[1] : Tensor();
  if (const AutocastInputs to(AutocastRule::lower_precision, x, state[0], c, weights.w_ih,
                              weights.w_hh, weights.b_ih, weights.b_hh);
      to.changed()) {
    std::vector<Tensor> low{to[1]};
    if (state.size() > 1) low.push_back(to[2]);
    return run(cell, order, to[0], low, {to[3], to[4], to[5], to[6]});
  }
  if (x.size(0) == 0) return composed_sequence(cell, order, x, state, weights);
  {
    const NoGrad no_grad;
    detail::check_cell(op, select(x, 0, 0), state[0], weights, gates_of(cell));
  }
  check(state.size() == 1 || state[1].shape() == state[0].shape(), op, ": c ", state.back().shape(),
        " has not the shape of h ", state[0].shape());
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), state.begin(), state.end());
  inputs.insert(inputs.end(), {weights.w_ih, weights.w_hh});
  const bool bias = weights.b_ih.defined() && weights.b_hh.defined();
  if (bias) inputs.insert(inputs.end(), {weights.b_ih, weights.b_hh});
  const bool half_bias = !bias && (weights.b_ih.defined() || weights.b_hh.defined());
  if (half_bias || !is_fused(inputs)) return composed_sequence(cell, order, x, state, weights);
  return record_multi_list(Sequence(cell, order, bias), inputs);
}

}  // namespace

RnnOutput rnn(const Tensor& x, const Tensor& h, const CellWeights& weights,
              Nonlinearity nonlinearity, TimeOrder order) {
  detail::check_defined("rnn",
                        {{"x", x}, {"h", h}, {"w_ih", weights.w_ih}, {"w_hh", weights.w_hh}});
  const Cell cell = nonlinearity == Nonlinearity::tanh ? Cell::tanh : Cell::relu;
  const std::vector<Tensor> outputs = run(cell, order, x, {h}, weights);
  return {outputs[0], outputs[1]};
}

LstmOutput lstm(const Tensor& x, const LstmState& state, const CellWeights& weights,
                TimeOrder order) {
  detail::check_defined(
      "lstm",
      {{"x", x}, {"h", state.h}, {"c", state.c}, {"w_ih", weights.w_ih}, {"w_hh", weights.w_hh}});
  const std::vector<Tensor> outputs = run(Cell::lstm, order, x, {state.h, state.c}, weights);
  return {outputs[0], outputs[1], outputs[2]};
}

RnnOutput gru(const Tensor& x, const Tensor& h, const CellWeights& weights, TimeOrder order) {
  detail::check_defined("gru",
                        {{"x", x}, {"h", h}, {"w_ih", weights.w_ih}, {"w_hh", weights.w_hh}});
  const std::vector<Tensor> outputs = run(Cell::gru, order, x, {h}, weights);
  return {outputs[0], outputs[1]};
}

}  // namespace hero
