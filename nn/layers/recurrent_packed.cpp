// Recurrent layers over packed sequences. Steps with equally many sequences run together, as one
// piece [steps, sequences, I] of the packed data.
#include <algorithm>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/layers/packed_checks.h>
#include <hero/nn/recurrent.h>

namespace hero::nn {

namespace {

// Steps with as many sequences each, and their first row in the packed data.
struct Piece {
  int64_t steps, sequences, row;
};

std::vector<Piece> pieces_of(const std::vector<int64_t>& batch_sizes) {
  std::vector<Piece> pieces;
  int64_t row = 0;
  for (const int64_t sequences : batch_sizes) {
    if (pieces.empty() || pieces.back().sequences != sequences)
      pieces.push_back({0, sequences, row});
    ++pieces.back().steps;
    row += sequences;
  }
  return pieces;
}

// Rows [from, to) of a state, or nothing of one that the layer does not have.
Tensor rows(const Tensor& state, int64_t from, int64_t to) {
  return state.defined() ? state.slice(0, from, to) : state;
}

Tensor in_order(const Tensor& state, int64_t dim, const std::vector<int64_t>& order) {
  return state.defined() ? index_select(state, dim, tensor(order).to(state.device())) : state;
}

Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : cat(parts, 0);
}

}  // namespace

// One direction of one layer: forward drops the sequences that have ended, which are the last ones;
// reverse begins with the longest sequences and takes the others in as their ends come.
Recurrent::Run Recurrent::run_steps(const Tensor& data, const std::vector<int64_t>& batch_sizes,
                                    const LstmState& first, size_t index) const {
  const bool reverse = options_.bidirectional && index % 2 == 1;
  std::vector<Piece> pieces = pieces_of(batch_sizes);
  if (reverse) std::reverse(pieces.begin(), pieces.end());
  std::vector<Tensor> outputs, h, c;
  LstmState state;
  int64_t running = 0;
  for (const Piece& piece : pieces) {
    if (state.h.defined() && piece.sequences < running) {
      h.push_back(rows(state.h, piece.sequences, running));
      c.push_back(rows(state.c, piece.sequences, running));
      state = {rows(state.h, 0, piece.sequences), rows(state.c, 0, piece.sequences)};
    } else if (piece.sequences > running) {
      const LstmState entering{rows(first.h, running, piece.sequences),
                               rows(first.c, running, piece.sequences)};
      state = {running == 0 ? entering.h : cat({state.h, entering.h}, 0),
               running == 0 || !has_cell() ? entering.c : cat({state.c, entering.c}, 0)};
    }
    running = piece.sequences;
    const Tensor x = data.slice(0, piece.row, piece.row + piece.steps * piece.sequences)
                         .unflatten(0, {piece.steps, piece.sequences});
    Run result =
        run(x, state, parameters_[index], reverse ? TimeOrder::reverse : TimeOrder::forward);
    outputs.push_back(flatten(result.output, 0, 1));
    state = result.last;
  }
  h.push_back(state.h);
  c.push_back(state.c);
  for (std::vector<Tensor>* list : {&h, &c}) std::reverse(list->begin(), list->end());
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  return {joined(outputs), {joined(h), has_cell() ? joined(c) : Tensor()}};
}

LSTMResult Recurrent::run_all_packed(const Tensor& data, const PackedSequence& like,
                                     const LstmState& given) {
  check(data.ndim() == 2 && data.size(1) == input_size_, kind_, ": packed data is ", data.shape(),
        "; the layer takes [.., ", input_size_, "]");
  check(data.size(0) == like.data.size(0), kind_, ": a hook made ", data.size(0), " rows of ",
        like.data.size(0), " rows of packed data");
  const auto N = static_cast<int64_t>(like.sorted_indices.size());
  const auto first_of = [&](const char* name, const Tensor& state) {
    const Shape shape{static_cast<int64_t>(parameters_.size()), N, size_of(name)};
    if (!state.defined()) return zeros(shape, {.dtype = data.dtype(), .device = data.device()});
    check(state.shape() == shape, kind_, ": ", name, " has shape ", state.shape(),
          "; it should be ", shape);
    return in_order(state, 1, like.sorted_indices);
  };
  const LstmState first{first_of("h", given.h), has_cell() ? first_of("c", given.c) : Tensor()};
  Tensor x = data;
  std::vector<Tensor> h, c;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int direction = 0; direction < (options_.bidirectional ? 2 : 1); ++direction) {
      const auto index = static_cast<int64_t>(h.size());
      const LstmState start{first.h[index], has_cell() ? first.c[index] : Tensor()};
      const Run result = run_steps(x, like.batch_sizes, start, h.size());
      outputs.push_back(result.output);
      h.push_back(result.last.h);
      c.push_back(result.last.c);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (layer + 1 < options_.num_layers) x = dropout(x, options_.dropout, training());
  }
  return {x,
          {in_order(stack(h), 1, like.unsorted_indices),
           has_cell() ? in_order(stack(c), 1, like.unsorted_indices) : Tensor()}};
}

PackedLSTMResult Recurrent::run_packed(const PackedSequence& x, const LstmState& first) {
  check_packed(kind_, x, x.data);
  Tensors inputs{x.data};
  if (first.h.defined()) inputs.push_back(first.h);
  if (first.c.defined()) inputs.push_back(first.c);
  const bool has_h = first.h.defined(), has_c = first.c.defined();
  const Tensors outputs = run_hooked(inputs, [&](const Tensors& in) -> Tensors {
    const LSTMResult result =
        run_all_packed(in[0], x, {has_h ? in[1] : Tensor(), has_c ? in.back() : Tensor()});
    if (!has_cell()) return {result.output, result.state.h};
    return {result.output, result.state.h, result.state.c};
  });
  PackedSequence output = x;
  output.data = outputs[0];
  return {std::move(output), {outputs[1], has_cell() ? outputs[2] : Tensor()}};
}

}  // namespace hero::nn
