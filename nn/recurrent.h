#pragma once
// Recurrent layers and cells. T time, N batch, I inputs, H hidden units, L layers, D directions (1
// or 2). Initial values: uniform within 1 / sqrt(H), as PyTorch's.
#include <string>
#include <vector>

#include <hero/autograd/nn_ops.h>
#include <hero/nn/module.h>

namespace hero::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;    ///< x and output are [N, T, ..] instead of [T, N, ..]
  double dropout = 0.0;        ///< of each layer's output but the last's, in training
  bool bidirectional = false;  ///< a second run from the end; outputs lie side by side
};

using LSTMOptions = RecurrentOptions;
using GRUOptions = RecurrentOptions;

struct RNNOptions {
  int64_t num_layers = 1;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0.0;
  bool bidirectional = false;
};

struct RecurrentResult {
  Tensor output;  ///< [T, N, D H]: the last layer's state after each step
  Tensor h;       ///< [L D, N, H]: each layer's last state
};

struct LSTMResult {
  Tensor output;    ///< [T, N, D H]
  LstmState state;  ///< h and c, [L D, N, H]
};

/// The places of a cell's parameters in their module; biases may be undefined.
struct CellParameters {
  Tensor *w_ih, *w_hh, *b_ih, *b_hh;
  CellWeights weights() const { return {*w_ih, *w_hh, *b_ih, *b_hh}; }
};

/// What RNN, LSTM and GRU share. Parameters, a layer l and direction ("" or "_reverse"):
/// weight_ih_l0 [G H, I or D H], weight_hh_l0 [G H, H], bias_ih_l0 [G H], bias_hh_l0 [G H] with G
/// gates. Called through Module it returns the output alone.
class Recurrent : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  int64_t input_size() const { return input_size_; }
  int64_t hidden_size() const { return hidden_size_; }
  const RecurrentOptions& options() const { return options_; }

 protected:
  Recurrent(const char* kind, int64_t gates, std::pair<int64_t, int64_t> sizes,
            const RecurrentOptions& options);

  /// One run over time in one direction: outputs [T, N, H] and the last state.
  struct Run {
    Tensor output;
    LstmState last;
  };
  virtual Run run(const Tensor& x, const LstmState& first, const CellWeights& weights,
                  TimeOrder order) const = 0;
  virtual bool has_cell() const { return false; }
  /// All layers, from x and initial states as the user gave them (undefined: zeros).
  LSTMResult run_layers(const Tensor& x, const LstmState& first);

 private:
  Tensor first_state(const char* name, const Tensor& given, const Tensor& x, bool batched) const;
  Tensor run_layer(const Tensor& x, const LstmState& first, int64_t layer,
                   std::vector<LstmState>& last);
  LSTMResult run_all(const Tensor& x, const LstmState& first);

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
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  /// x [T, N, I] or [T, I]; h [L D, N, H] or [L D, H], zeros when undefined.
  RecurrentResult operator()(const Tensor& x, const Tensor& h = {});

 protected:
  Run run(const Tensor& x, const LstmState& first, const CellWeights& weights,
          TimeOrder order) const override;

 private:
  Nonlinearity nonlinearity_;
};

/// Gates i, f, g, o: c' = f c + i g, h' = o tanh(c'). Hochreiter and Schmidhuber, Neural
/// Computation 9(8), 1997, with the forget gate of Gers et al., 2000.
/// \snippet test_examples_networks.cpp LSTM
class LSTM : public Recurrent {
 public:
  using Options = RecurrentOptions;
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// x [T, N, I] or [T, I]; h and c [L D, N, H] or [L D, H], zeros when undefined.
  LSTMResult operator()(const Tensor& x, const LstmState& state = {});

 protected:
  Run run(const Tensor& x, const LstmState& first, const CellWeights& weights,
          TimeOrder order) const override;
  bool has_cell() const override { return true; }
};

/// Gates r, z, n: n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h. Cho et al.,
/// arXiv 1406.1078, with the reset after the product, as PyTorch's and cuDNN's.
class GRU : public Recurrent {
 public:
  using Options = RecurrentOptions;
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// x [T, N, I] or [T, I]; h [L D, N, H] or [L D, H], zeros when undefined.
  RecurrentResult operator()(const Tensor& x, const Tensor& h = {});

 protected:
  Run run(const Tensor& x, const LstmState& first, const CellWeights& weights,
          TimeOrder order) const override;
};

struct CellOptions {
  bool bias = true;
};

struct RNNCellOptions {
  bool bias = true;
  Nonlinearity nonlinearity = Nonlinearity::tanh;
};

/// What the cells share: weight_ih [G H, I], weight_hh [G H, H], bias_ih [G H], bias_hh [G H].
class RecurrentCell : public Module {
 public:
  int64_t input_size() const { return input_size_; }
  int64_t hidden_size() const { return hidden_size_; }

 protected:
  RecurrentCell(const char* kind, int64_t gates, std::pair<int64_t, int64_t> sizes, bool bias);
  /// The state given, or zeros [N, H] (x [N, I]) or [H] (x [I]).
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
  RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  /// x [N, I] or [I], h [N, H] or [H] (zeros when undefined): the new h.
  Tensor operator()(const Tensor& x, const Tensor& h = {});
  Tensor forward(const Tensor& x) override;

 private:
  Nonlinearity nonlinearity_;
};

/// One step of an LSTM. Called through Module it returns h.
class LSTMCell : public RecurrentCell {
 public:
  using Options = CellOptions;
  LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  /// x [N, I] or [I], h and c [N, H] or [H] (zeros when undefined): the new h and c.
  LstmState operator()(const Tensor& x, const LstmState& state = {});
  Tensor forward(const Tensor& x) override;
};

/// One step of a GRU.
class GRUCell : public RecurrentCell {
 public:
  using Options = CellOptions;
  GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  /// x [N, I] or [I], h [N, H] or [H] (zeros when undefined): the new h.
  Tensor operator()(const Tensor& x, const Tensor& h = {});
  Tensor forward(const Tensor& x) override;
};

}  // namespace hero::nn
