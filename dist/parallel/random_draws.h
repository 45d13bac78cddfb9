#pragma once
// RandomDraws: checks the random numbers that a model draws on ranks that compute it together.
#include <optional>
#include <string>

#include <hero/core/random.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// Follows the thread's generator through the forward of a module that tensor_parallel() cut. Draws
/// where all ranks compute the same are declared (Communicator::declare()), so that ranks with
/// different seeds get an Error. Draws where each rank has a slice, or its positions of a divided
/// sequence, throw an Error, since they would not be the rank's part of the whole tensor's numbers.
///
/// It needs no messages of its own. Forward passes that activation checkpointing repeats are not
/// checked again.
class RandomDraws {
 public:
  /// For ranks that have `slice_count` slices together; one slice means that nothing is divided.
  RandomDraws(const Communicator& group, int slice_count)
      : group_(group), slice_count_(slice_count) {}

  /// Called when the module's forward begins. Draws before it belong to the program and are not
  /// checked.
  void begin_forward();
  void end_forward();
  /// Called when the region `path` begins: until it ends nothing may be drawn.
  void begin_region(const std::string& path);
  /// Called when the region ends. `divided`: its outputs are divided among the ranks, and nothing
  /// may be drawn until the next region begins.
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
  // Within a forward: the generator state that all ranks have compared.
  std::optional<Generator::State> known_;
  std::optional<Divided> divided_;
};

/// Makes the module's forward throw an Error if, in training, it draws random numbers while each
/// rank of context parallelism has its own positions.
void refuse_draws(nn::Module& module);

}  // namespace hero::dist
