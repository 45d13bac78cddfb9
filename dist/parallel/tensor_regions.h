#pragma once
// Regions: modules that compute with slices of their weights, and what they do around forward.
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/data_parallel/owners.h>
#include <hero/dist/parallel/random_draws.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// The ranks of tensor parallelism and the slices that they have.
struct Slices {
  Communicator group;
  std::shared_ptr<GroupOwners> owners;
  int count = 1;  ///< slices of all ranks; rank r has the r-th of size() equal runs of them
  std::shared_ptr<RandomDraws> draws;  ///< what the module around all regions draws

  int here() const { return count / group.size(); }
  int first() const { return group.rank() * here(); }
};

/// One parameter that is cut along dimension `dim`, of which `groups` are the parts that are cut
/// each by itself (rows of queries, of keys, of values). A slice is its share of each group.
struct CutParameter {
  std::string name;
  nn::Slot* slot = nullptr;
  int dim = 0;
  std::vector<int64_t> groups = {};
  /// Empty: each slice has a share of its own of each group. Otherwise group g consists of
  /// shares[g] equal shares, of which w / shares[g] slices in a row have the same, such as a head
  /// of keys that several slices attend to: the parameter stays whole on all ranks, and its
  /// gradient is the sum of what the slices say.
  std::vector<int> shares = {};

  bool stays_whole() const { return !shares.empty(); }
  /// Slice i's share of a group, counted from the begin of the group.
  Chunk share(size_t group, int i, int slice_count) const;
  /// Elements of slice i along `dim`.
  int64_t size_of(int i, int slice_count) const;
  /// "weight [13, 7]: rows 8, 5 in 4 slices".
  std::string text(int slice_count) const;
};

/// A module that is computed slice by slice.
struct Region {
  enum class Kind : uint8_t {
    column,     ///< the input is whole, outputs are parts
    row,        ///< the input is a part, the outputs are summands
    inside,     ///< the input is whole, the outputs are summands
    embedding,  ///< row numbers of the whole table, the outputs are summands
    logits,     ///< as column, but with the whole outputs
    norm,       ///< a rank's positions of the sequence, by parameters that all ranks have
    enter,      ///< takes the whole sequence, computes with the rank's positions
    leave,      ///< takes the rank's positions, computes with the whole sequence
  };
  Kind kind = Kind::column;
  std::string path;
  nn::Module* module = nullptr;
  std::vector<CutParameter> pieces = {};
  nn::Slot* bias = nullptr;  ///< added to the sum of summands; null: none
  /// Around the module a rank has its positions of the sequence alone, the dimension before the
  /// last.
  bool sequence = false;
  std::vector<nn::Slot*> shared = {};  ///< a norm's parameters
};

/// The leaf goes on with this rank's slices of its values, or of their shape on meta, unless it
/// stays whole.
void cut(const CutParameter& piece, const Slices& slices);

/// The module computes with slices from now on.
void install(const Region& region, const Slices& slices);

}  // namespace hero::dist
