#pragma once
// Exercises of several ranks: what is trained, what one process computes, and how the two are
// compared.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exercises/support/arrays.h"

#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

namespace exercise {

using hero::dist::Communicator;

inline constexpr int kSteps = 3;
/// With momentum, so that a step shows what the optimizer remembers of the one before. A mistake by
/// a factor shows, too, which Adam would divide away.
inline constexpr hero::optim::SGDOptions kSGD = {.lr = 0.5, .momentum = 0.9};

/// Six layers, 30-64-64-64-64-64-10, with 19,274 parameters.
struct Network : hero::nn::Module {
  hero::nn::Linear& first = add<hero::nn::Linear>("first", 30, 64);
  hero::nn::Linear& second = add<hero::nn::Linear>("second", 64, 64);
  hero::nn::Linear& third = add<hero::nn::Linear>("third", 64, 64);
  hero::nn::Linear& fourth = add<hero::nn::Linear>("fourth", 64, 64);
  hero::nn::Linear& fifth = add<hero::nn::Linear>("fifth", 64, 64);
  hero::nn::Linear& last = add<hero::nn::Linear>("last", 64, 10);
  hero::Tensor forward(const hero::Tensor& x) override;
};

/// A network whose first values depend on `seed` alone.
Network make_network(uint64_t seed);

/// The mean loss of the rows that `rank` has in `step`, other rows in each.
hero::Tensor loss_of(Network& net, int step, int rank);

/// Its parameters' values, copied.
std::vector<Named> values_of(const Network& net);

/// The bytes that the calling rank holds, under whatever tag, without the rows and the copies of
/// this file.
int64_t held_bytes();
/// The most that it held since the ledger's peaks were reset. Rows and copies are the same since
/// then.
int64_t most_held_bytes();

/// When a gradient goes in the step of most_without_gradients().
enum class Gone {
  with_parameter,  ///< when it is complete
  with_layer,      ///< when all of its layer are complete
};
/// The most bytes that the forward and backward of one process hold which keeps no gradient, as
/// most_held_bytes(): parameters, activations, and gradients that are about to go.
int64_t most_without_gradients(Gone gone);

/// What one process computes that takes the rows of all ranks, one after the other.
struct Alone {
  std::vector<std::vector<Named>> values;                  ///< before the first step and after each
  std::vector<std::vector<Named>> means;                   ///< the mean gradients of each step
  std::vector<std::vector<std::vector<Named>>> gradients;  ///< [step][rank], those of a rank alone
};
Alone train_alone(int ranks);

/// What an answer has computed on one rank, and what it cost there.
struct Run {
  std::vector<std::vector<Named>> values;  ///< before the first step and after each
  int64_t sent = 0;                        ///< bytes, in the last step
  std::vector<int64_t> notes;              ///< whatever else an exercise measures
};
/// Runs `body` on so many ranks, which are threads, and returns what it noted on each.
std::vector<Run> run_ranks(int ranks, const std::function<void(const Communicator&, Run&)>& body);

/// Throws Wrong unless every rank's values after every step have the bits of one process. What it
/// says includes the mistake that it recognises.
void compare(const std::vector<Run>& runs, const Alone& alone);

/// Why an exercise of ranks may not end.
inline constexpr const char* kRanksHang =
    "A rank waits for a call that the others never make, or a loop never ends. All ranks have to "
    "make the "
    "same calls in the same order.";

}  // namespace exercise
