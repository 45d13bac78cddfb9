#pragma once
// The random numbers that a model draws on ranks that compute it together.
#include <optional>
#include <string>

#include <hero/core/random.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// Follows the thread's generator through the forward of a module that tensor_parallel() cut. What
/// is drawn where all ranks compute the same is declared, so that ranks with other seeds get an
/// Error. What is drawn where each rank has a slice, or its positions of a cut sequence, would not
/// be a part of the whole's numbers, and is an Error.
///
/// Nothing is sent for it. A second run of a checkpoint is not looked at: the first one was.
class RandomDraws {
 public:
  /// Of ranks that have `slice_count` slices together; one slice is the whole.
  RandomDraws(const Communicator& group, int slice_count)
      : group_(group), slice_count_(slice_count) {}

  /// The module's forward begins. What was drawn before is the program's own.
  void begin_forward();
  void end_forward();
  /// The region `path` begins: until it ends nothing may be drawn.
  void begin_region(const std::string& path);
  /// It ends; with `divided`, its outputs are divided among the ranks, and nothing may be drawn
  /// until the next region begins.
  void end_region(const std::string& path, bool divided);

 private:
  struct Divided {
    std::string since;  // the path of the region that divided them
    Generator::State state;
  };
  void check_divided(const std::string& path) const;
  void declare_drawn();

  Communicator group_;
  int slice_count_;
  std::optional<Generator::State> known_;  // within a forward: what all know
  std::optional<Divided> divided_;
};

/// From now on an Error if the module, in training, draws random numbers in a forward in which each
/// rank of context parallelism has its own positions.
void refuse_draws(nn::Module& module);

}  // namespace hero::dist
