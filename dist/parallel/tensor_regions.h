#pragma once
// Region: a module that computes with slices of its weights, and the communication around its
// forward.
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/parallel/random_draws.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// The ranks of tensor parallelism and the slices that they have.
struct Slices {
  Communicator group;
  std::shared_ptr<CommunicatorGroup> rank_group;
  int count = 1;  ///< slices of all ranks; rank r has the r-th of size() equal runs of them
  std::shared_ptr<RandomDraws> draws;  ///< checks the draws of the outermost module

  int here() const { return count / group.size(); }
  int first() const { return group.rank() * here(); }
};

/// One parameter that is cut along dimension `dim`. `groups` are the parts of this dimension that
/// are each cut separately (rows of queries, of keys, of values); a slice consists of its share of
/// each group.
struct CutParameter {
  std::string name;
  nn::Slot* slot = nullptr;
  int dim = 0;
  std::vector<int64_t> groups = {};
  /// Empty: each slice has a share of its own of each group. Otherwise group g consists of
  /// shares[g] equal shares, of which w / shares[g] slices in a row have the same, such as a head
  /// of keys that several slices attend to: the parameter stays whole on all ranks, and its
  /// gradient is the sum of the slices' gradients.
  std::vector<int> shares = {};

  bool stays_whole() const { return !shares.empty(); }
  /// Slice i's share of a group, relative to the beginning of the group.
  Chunk share(size_t group, int i, int slice_count) const;
  /// Elements of slice i along `dim`.
  int64_t size_of(int i, int slice_count) const;
  /// "weight [13, 7]: rows 8, 5 in 4 slices".
  std::string text(int slice_count) const;
};

/// A module that is computed slice by slice.
struct Region {
  enum class Kind : uint8_t {
    column,     ///< the input is whole; each slice has a part of the outputs
    row,        ///< each slice has a part of the input; the slices' outputs are added up
    inside,     ///< the input is whole; the slices' outputs are added up
    embedding,  ///< the input has row numbers of the whole table; the slices' outputs are added up
    logits,     ///< as column, but the outputs are gathered
    norm,       ///< computes with the rank's positions of the sequence and whole parameters
    enter,      ///< takes the whole sequence, computes with the rank's positions
    leave,      ///< takes the rank's positions, computes with the whole sequence
  };
  Kind kind = Kind::column;
  std::string path;
  nn::Module* module = nullptr;
  std::vector<CutParameter> pieces = {};
  nn::Slot* bias = nullptr;  ///< added to the sum over slices; null: none
  /// True: outside of the module a rank has only its positions of the sequence, along the dimension
  /// before the last.
  bool sequence = false;
  std::vector<nn::Slot*> shared = {};  ///< a norm's parameters
};

/// Replaces the leaf's values by this rank's slices of them (on meta only the shape), unless the
/// parameter stays whole.
void cut(const CutParameter& piece, const Slices& slices);

/// Makes the module compute with slices from now on.
void install(const Region& region, const Slices& slices);

}  // namespace hero::dist
