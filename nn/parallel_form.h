#pragma once
// ParallelForm: a module's description of how it can be divided among ranks. Tensor, sequence and
// context parallelism, pipelines and the trainer read it, and so work with any model.
//
//   struct Layer : nn::Module, nn::Parallelizable {
//     nn::RMSNorm& norm = add<nn::RMSNorm>("norm", Shape{C});
//     nn::Linear &up = add<nn::Linear>("up", C, 4 * C), &down = add<nn::Linear>("down", 4 * C, C);
//     Tensor forward(const Tensor& x) override { return x + down(relu(up(norm(x)))); }
//     nn::ParallelForm parallel_form() const override {
//       return {.cuts = {{"up", nn::Cut::colwise}, {"down", nn::Cut::rowwise}},
//               .by_position = {"norm", "up", "down"}};
//     }
//   };
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/nn/module.h>
#include <hero/nn/sequence.h>

namespace hero::nn {

/// How a module is cut into slices, of which each rank has some (dist::tensor_parallel).
enum class Cut : uint8_t {
  /// A Linear by its outputs, PyTorch's ColwiseParallel: rows of the weight, which is stored as
  /// [outputs, inputs], of the bias, and of an adapter's lora_B. Every rank takes the whole input
  /// and returns its part of the outputs, for a layer that is cut rowwise.
  colwise,
  /// A Linear by its inputs, PyTorch's RowwiseParallel: columns of the weight, and of an adapter's
  /// lora_A. Every rank takes its part of the inputs; the output is the sum of the slices'
  /// products,
  /// on all ranks. The bias stays whole and is added to the sum.
  rowwise,
  /// An attention layer, such as CausalSelfAttention, MultiheadAttention or one whose
  /// ParallelForm has `attention`, by its heads: those of queries together with those of keys
  /// and values that belong to them, and the columns of the last projection. If slices are a
  /// multiple of the heads of keys and values, several slices attend to the same one, and their
  /// projections, or the weight that packs them with the queries, stay whole.
  heads,
  /// An Embedding, or a Linear without bias that computes the logits of classes, by words: rows of
  /// the weight, divided as evenly as possible. If it is called, it returns the whole result on all
  /// ranks. If linear_cross_entropy() reads the weight, as the loss() of GPT and Llama does, the
  /// logits stay divided.
  vocabulary,
};

/// Which module is cut, and how: {"mlp.c_fc", Cut::colwise}.
struct ModuleCut {
  std::string path;        ///< the path; in a plan for dist::tensor_parallel, * is any characters
  Cut cut = Cut::colwise;  ///< how it is cut
  /// With Cut::colwise: the number of equal parts of the outputs, each of which is cut by itself,
  /// such as the gates and the values that one weight packs.
  int parts = 1;
};

/// The kind of heads to which rows of an attention weight belong.
enum class Heads : uint8_t { queries, keys, values };

/// A weight of an attention layer that is cut by heads.
struct HeadWeight {
  /// The path of a Linear below the layer, which is then cut by itself; or of a parameter, such as
  /// "in_proj_weight": then the layer's whole forward is computed for each slice of its parameters,
  /// and its output is the sum over slices.
  std::string path;
  /// The kinds of its rows, in order: {Heads::queries}, or all three of a packed weight. Empty: its
  /// columns are those of the heads of queries, as in the last projection.
  std::vector<Heads> rows = {};
};

/// The heads of an attention layer. The layer must compute with as many heads as the outputs of its
/// projections have, which may be only some of all heads.
struct AttentionForm {
  int64_t heads = 1;     ///< heads of queries of the whole layer
  int64_t kv_heads = 1;  ///< heads of keys and values of the whole layer; they divide `heads`
  std::vector<HeadWeight> weights = {};  ///< all weights that are cut
  /// Where weights are named as parameters: the path of a bias that is added to the sum over
  /// slices, such as "out_proj.bias"; "" if there is none.
  std::string bias = "";
};

/// The parts of a model that runs as embedding, then equal blocks, then norm, then head. Each is
/// named by its path.
struct StackForm {
  std::vector<std::string> embedding = {};  ///< the modules before the blocks
  std::string blocks = "";                  ///< the list whose children are the blocks
  std::string norm = "";                    ///< the norm after the last block; "" if there is none
  std::string head = "";                    ///< the module after the norm; "" if there is none
};

/// A module's description of how it may be divided. All paths are below the module itself.
struct ParallelForm {
  /// How modules below it are cut by dist::tensor_parallel; modules that have a form of their own
  /// describe their cuts themselves.
  std::vector<ModuleCut> cuts = {};
  /// For a layer of attention: its heads, by which dist::tensor_parallel cuts it.
  std::optional<AttentionForm> attention = {};
  /// For a whole model, or the encoder or decoder of one: its parts.
  std::optional<StackForm> stack = {};
  /// Modules whose output at a position of the sequence depends on their input at that position
  /// alone, such as norms and feed-forward layers. Where ranks have only some positions, the
  /// gradients of their parameters are sums over ranks. A module may not be below another of these.
  /// A norm of each head, or a parameter between two layers that are cut, computes with this rank's
  /// heads or hidden units: it is none of these, and its gradient would be a part of the whole one.
  std::vector<std::string> by_position = {};
  /// Parameters that context parallelism leaves to the module, because each position uses a row of
  /// its own (an embedding of positions), or because the module itself computes with
  /// SequencePart::copies() of them.
  std::vector<std::string> position_parameters = {};
  /// True if the module can compute with the positions of this rank alone when ranks share each
  /// sequence (Parallelizable::sequence()), such as an attention layer that calls
  /// shared_attention().
  bool shares_sequence = false;
  int positions = 1;  ///< the dimension of its inputs along which the positions lie
};

/// A module that has a parallel form. A module derives from it beside Module;
/// dist::tensor_parallel() and dist::context_parallel() tell it what they have done.
class Parallelizable {
 public:
  virtual ~Parallelizable() = default;

  /// The module's form. It must not depend on how the module is divided already.
  virtual ParallelForm parallel_form() const = 0;

  /// From now on packed weights contain the rows of each head of keys and values `copies` times in
  /// a row, so that as many slices of the layer have a copy each. dist::tensor_parallel() calls it
  /// if there are more slices than such heads.
  void set_kv_copies(int64_t copies) { kv_copies_ = copies; }
  /// How often each head of keys and values is in the output of a packed projection; 1 while a
  /// WithoutHooks lives, since a caller that asks only for shapes plans whole projections.
  int64_t kv_copies() const;

  /// From now on, ranks share each sequence, and inputs have this rank's positions; null makes them
  /// whole again. dist::context_parallel() calls it for modules whose form says shares_sequence.
  virtual void set_sequence(const std::shared_ptr<const SequencePart>& sequence);
  /// The positions of this rank; null where sequences are whole.
  const SequencePart* sequence() const { return sequence_.get(); }

  /// From now on the blocks of the module's stack each get one of `parts` equal parts of the
  /// positions. dist::tensor_parallel() with .sequence calls it, and pipelines ask for it.
  void set_block_parts(int64_t parts) { block_parts_ = parts; }
  /// The number of parts into which the positions are divided between the blocks.
  int64_t block_parts() const { return block_parts_; }

  /// Makes blocks save only their inputs for backward and run again then, or no longer so. Returns
  /// false if the module cannot, as it is unless overridden; dist::Trainer calls it for
  /// "checkpoint_blocks".
  virtual bool set_checkpoint(bool on);

 protected:
  /// scaled_dot_product_attention() of q [B, H, T, D], k and v [B, G, T, D]. When ranks share each
  /// sequence, these have the positions of this rank, queries attend to the positions of all ranks,
  /// and masks and biases in the options throw an Error.
  Tensor shared_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options = {}) const;

 private:
  int64_t kv_copies_ = 1, block_parts_ = 1;
  std::shared_ptr<const SequencePart> sequence_;
};

/// The form of a module; nothing if it has none.
std::optional<ParallelForm> parallel_form_of(const Module& module);

/// The blocks of a module's stack, by their paths below the module.
Named<Module*> blocks_of(Module& module, const StackForm& stack);

}  // namespace hero::nn
