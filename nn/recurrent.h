#pragma once
// Recurrent layers and cells. T time, N batch, I inputs, H hidden units, L layers, D directions (1
// or 2). Parameters are initialised uniformly within +-1 / sqrt(H), as in PyTorch.
#include <string>
#include <vector>

#include <hero/autograd/ops/nn/nn.h>
#include <hero/nn/module.h>
#include <hero/nn/packed_sequence.h>

namespace hero::nn {

/// Options of LSTM and GRU.
struct RecurrentOptions {
  int64_t num_layers = 1;      ///< layers, L; each reads the output of the one before
  bool bias = true;            ///< whether the layers have biases
  bool batch_first = false;    ///< true: x and output are [N, T, ..] instead of [T, N, ..]
  double dropout = 0.0;        ///< rate of dropout after every layer but the last, in training
  bool bidirectional = false;  ///< true: a second run from the end; outputs are concatenated
  /// P: the state h of an LSTM is W_hr h, with P elements, fewer than H; 0 for h itself. Sak et
  /// al., arXiv 1402.1128. Such a layer runs step by step. GRU has none.
  int64_t proj_size = 0;
};

using LSTMOptions = RecurrentOptions;
using GRUOptions = RecurrentOptions;

/// Options of RNN.
struct RNNOptions {
  int64_t num_layers = 1;  ///< layers, L; each reads the output of the one before
  Nonlinearity nonlinearity = Nonlinearity::tanh;  ///< tanh or relu
  bool bias = true;                                ///< whether the layers have biases
  bool batch_first = false;    ///< true: x and output are [N, T, ..] instead of [T, N, ..]
  double dropout = 0.0;        ///< rate of dropout after every layer but the last, in training
  bool bidirectional = false;  ///< true: a second run from the end; outputs are concatenated
};

/// What RNN and GRU return.
struct RecurrentResult {
  Tensor output;  ///< [T, N, D H]: the last layer's state h after each step
  Tensor h;       ///< [L D, N, H]: each layer's last state
};

/// What LSTM returns.
struct LSTMResult {
  Tensor output;    ///< [T, N, D H]: the last layer's state h after each step
  LstmState state;  ///< each layer's last h and c, [L D, N, H]
};

/// What RNN and GRU return for packed sequences.
struct PackedRecurrentResult {
  PackedSequence output;  ///< the last layer's state h after each step
  Tensor h;               ///< [L D, N, H]: each layer's state after each sequence's last step
};

/// What LSTM returns for packed sequences.
struct PackedLSTMResult {
  PackedSequence output;  ///< the last layer's state h after each step
  LstmState state;        ///< each layer's h and c after each sequence's last step, [L D, N, H]
};

/// Pointers to a cell's parameters in their module; biases may be undefined.
struct CellParameters {
  Tensor *w_ih, *w_hh, *b_ih, *b_hh;
  Tensor* w_hr = nullptr;  ///< only for an LSTM with proj_size
  CellWeights weights() const { return {*w_ih, *w_hh, *b_ih, *b_hh}; }
};

/// The common base of RNN, LSTM and GRU. Parameters of each layer and direction, here those of
/// layer 0 (names of the second direction end in "_reverse"): weight_ih_l0 [G H, I or D H],
/// weight_hh_l0 [G H, H], bias_ih_l0 [G H], bias_hh_l0 [G H] with G gates, and with proj_size
/// weight_hr_l0 [P, H], where states and outputs have P in the place of H. If called with one
/// tensor through Module, it returns the output alone.
class Recurrent : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  /// The number of inputs, I.
  int64_t input_size() const { return input_size_; }
  /// The number of hidden units, H.
  int64_t hidden_size() const { return hidden_size_; }
  /// The number of elements of h: proj_size, or H where that is 0.
  int64_t output_size() const { return options_.proj_size > 0 ? options_.proj_size : hidden_size_; }
  /// The options that the layer was made with.
  const RecurrentOptions& options() const { return options_; }

 protected:
  /// Makes the parameters of all layers; `kind` names the layer in errors.
  Recurrent(const char* kind, int64_t gates, std::pair<int64_t, int64_t> sizes,
            const RecurrentOptions& options);

  /// One run over time in one direction: outputs [T, N, H] and the last state.
  struct Run {
    Tensor output;
    LstmState last;
  };
  virtual Run run(const Tensor& x, const LstmState& first, const CellParameters& by,
                  TimeOrder order) const = 0;
  virtual bool has_cell() const { return false; }
  /// Runs all layers, given x and the initial states as the caller passed them (zeros if
  /// undefined).
  LSTMResult run_layers(const Tensor& x, const LstmState& first);
  /// Does the same with packed sequences; the states are [L D, N, H], in the sequences' first
  /// order.
  PackedLSTMResult run_packed(const PackedSequence& x, const LstmState& first);

 private:
  Tensor first_state(const char* name, const Tensor& given, const Tensor& x, bool batched) const;
  int64_t size_of(const char* state) const;
  Tensor run_layer(const Tensor& x, const LstmState& first, int64_t layer,
                   std::vector<LstmState>& last);
  LSTMResult run_all(const Tensor& x, const LstmState& first);
  Run run_steps(const Tensor& data, const std::vector<int64_t>& batch_sizes, const LstmState& first,
                size_t index) const;
  LSTMResult run_all_packed(const Tensor& data, const PackedSequence& like, const LstmState& first);

  const char* kind_;
  int64_t input_size_, hidden_size_;
  RecurrentOptions options_;
  std::vector<CellParameters> parameters_;  // by layer, then direction
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu in place of tanh. Elman, Cognitive Science 14,
/// 1990.
class RNN : public Recurrent {
 public:
  using Options = RNNOptions;
  /// Makes the layers for these sizes.
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  /// Runs over x [T, N, I] or [T, I], from the state h [L D, N, H] or [L D, H], which is zeros if
  /// undefined.
  RecurrentResult operator()(const Tensor& x, const Tensor& h = {});
  /// Runs over sequences of different lengths, each to its own end.
  PackedRecurrentResult operator()(const PackedSequence& x, const Tensor& h = {});

 protected:
  Run run(const Tensor& x, const LstmState& first, const CellParameters& by,
          TimeOrder order) const override;

 private:
  Nonlinearity nonlinearity_;
};

/// Gates i, f, g, o: c' = f c + i g, h' = o tanh(c'), or with proj_size W_hr of that. Hochreiter
/// and Schmidhuber, Neural Computation 9(8), 1997, with the forget gate of Gers et al., 2000.
/// \snippet test_examples_networks.cpp LSTM
class LSTM : public Recurrent {
 public:
  using Options = RecurrentOptions;
  /// Makes the layers for these sizes.
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// Runs over x [T, N, I] or [T, I], from the states h and c [L D, N, H] or [L D, H], which are
  /// zeros if undefined; with proj_size, h has P in the place of H.
  LSTMResult operator()(const Tensor& x, const LstmState& state = {});
  /// Runs over sequences of different lengths, each to its own end.
  PackedLSTMResult operator()(const PackedSequence& x, const LstmState& state = {});

 protected:
  Run run(const Tensor& x, const LstmState& first, const CellParameters& by,
          TimeOrder order) const override;
  bool has_cell() const override { return true; }

 private:
  static Run run_projected(const Tensor& x, const LstmState& first, const CellParameters& by,
                           TimeOrder order);
};

/// Gates r, z, n: n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h. Cho et al.,
/// arXiv 1406.1078, with the reset after the product, as PyTorch's and cuDNN's.
class GRU : public Recurrent {
 public:
  using Options = RecurrentOptions;
  /// Makes the layers for these sizes.
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// Runs over x [T, N, I] or [T, I], from the state h [L D, N, H] or [L D, H], which is zeros if
  /// undefined.
  RecurrentResult operator()(const Tensor& x, const Tensor& h = {});
  /// Runs over sequences of different lengths, each to its own end.
  PackedRecurrentResult operator()(const PackedSequence& x, const Tensor& h = {});

 protected:
  Run run(const Tensor& x, const LstmState& first, const CellParameters& by,
          TimeOrder order) const override;
};

/// Options of LSTMCell and GRUCell.
struct CellOptions {
  bool bias = true;  ///< whether the cell has biases
};

/// Options of RNNCell.
struct RNNCellOptions {
  bool bias = true;                                ///< whether the cell has biases
  Nonlinearity nonlinearity = Nonlinearity::tanh;  ///< tanh or relu
};

/// The common base of the cells. Parameters: weight_ih [G H, I], weight_hh [G H, H], bias_ih [G H],
/// bias_hh [G H].
class RecurrentCell : public Module {
 public:
  std::string extra_repr() const override;
  /// The number of inputs, I.
  int64_t input_size() const { return input_size_; }
  /// The number of hidden units, H.
  int64_t hidden_size() const { return hidden_size_; }

 protected:
  /// Makes the parameters; `kind` names the cell in errors.
  RecurrentCell(const char* kind, int64_t gates, std::pair<int64_t, int64_t> sizes, bool bias);
  /// The state that was given, or else zeros: [N, H] for x [N, I], or [H] for x [I].
  Tensor state_for(const Tensor& x, const Tensor& given) const;
  CellWeights weights() const { return parameters_.weights(); }

 private:
  int64_t input_size_, hidden_size_;
  CellParameters parameters_;
};

/// One step of an RNN.
class RNNCell : public RecurrentCell {
 public:
  using Options = RNNCellOptions;
  /// Makes the cell for these sizes.
  RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  /// Returns the new h for x [N, I] or [I] and h [N, H] or [H], which is zeros if undefined.
  Tensor operator()(const Tensor& x, const Tensor& h = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

 private:
  Nonlinearity nonlinearity_;
};

/// One step of an LSTM. If called with one tensor through Module, it returns h.
class LSTMCell : public RecurrentCell {
 public:
  using Options = CellOptions;
  /// Makes the cell for these sizes.
  LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  /// Returns the new h and c for x [N, I] or [I] and states [N, H] or [H], which are zeros if
  /// undefined.
  LstmState operator()(const Tensor& x, const LstmState& state = {});
  Tensor forward(const Tensor& x) override;
};

/// One step of a GRU.
class GRUCell : public RecurrentCell {
 public:
  using Options = CellOptions;
  /// Makes the cell for these sizes.
  GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  /// Returns the new h for x [N, I] or [I] and h [N, H] or [H], which is zeros if undefined.
  Tensor operator()(const Tensor& x, const Tensor& h = {});
  Tensor forward(const Tensor& x) override;
};

}  // namespace hero::nn
