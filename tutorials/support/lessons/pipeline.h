#pragma once
// Chapter 13: a clock for ranks that hand work on, and what it showed; matrices cut among ranks.
#include <string>
#include <vector>

#include "support/options/ranks.h"

#include <hero/autograd/autograd.h>

namespace tutorial {

/// What one rank did at which tick, where every piece of work takes one tick and a message none.
/// Messages carry the sender's clock, so the schedule is measured, but by no real clock.
class Schedule {
 public:
  explicit Schedule(const Communicator& world) : world_(world) {}

  void send(const hero::Tensor& x, int to);
  void receive(const hero::Tensor& x, int from);
  /// A tick of work, not before the last message that came.
  void forward(int micro_batch) { work(static_cast<char>('0' + micro_batch % 10)); }
  void backward(int micro_batch) { work(static_cast<char>('a' + micro_batch % 26)); }
  /// Waits until all that was sent has come.
  void end();

  /// A line a rank: digits are forwards, letters backwards, points are ticks without work.
  void print() const;
  /// Ticks until the last rank was done.
  int ticks() const { return static_cast<int>(ticks_); }
  /// The share of the ticks without work.
  double idle() const;

 private:
  void work(char what);

  const Communicator& world_;
  std::string line_;
  int64_t ready_ = 0, ticks_ = 0;
  std::vector<hero::dist::Work> sends_;
};

/// A pipeline run with some number of micro-batches.
struct Bubble {
  int micro_batches, ticks;
  double idle;
  bool same;  ///< gradients have the bits of the whole model
};
/// Table and figure: what was idle beside (p - 1) / (m + p - 1).
void show_bubbles(const Communicator& world, const std::vector<Bubble>& bubbles,
                  const std::string& folder);

/// Cuts a GPT's block for the ranks as dist::tensor_parallel does, and draws what of each matrix
/// its ranks say they hold.
void draw_slices(const Communicator& world, const std::string& folder);

/// "[22 28; 49 64]": a matrix of whole numbers.
std::string matrix(const hero::Tensor& x);

/// The largest difference, as a share of the largest element of `b`.
double distance(const hero::Tensor& a, const hero::Tensor& b);

}  // namespace tutorial
