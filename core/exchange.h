#pragma once
// The interface through which ranks exchange what lies on a device: copies, sums in rank order, and
// the order between their streams. The host waits for none of it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hero/core/dtype.h>
#include <hero/core/kernels/combine.h>

namespace hero::core {

/// A place in the work of a stream, between what it was asked for before and after. Any thread may
/// use it, for as long as it likes.
class Point {
 public:
  virtual ~Point() = default;
  /// What the calling thread asks of its current stream, on the point's device, from now on begins
  /// after the point.
  virtual void join() = 0;
  /// Whether the device has come there.
  virtual bool reached() = 0;
  /// Returns when it has: the host waits.
  virtual void wait() = 0;
};

/// What a device does for ranks whose arrays lie on it, in the calling thread's current stream.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// The place after all that the stream has been asked for so far.
  virtual std::shared_ptr<Point> point() = 0;
  virtual void copy(const std::byte* from, std::byte* to, int64_t bytes) = 0;
  /// output[i] = inputs[0][i] (op) inputs[1][i] (op) ... in the fold's order, with the bits of the
  /// host's sum (dist/engines/ordered_reduce.h). `output` may be one of the inputs.
  virtual void combine(const Fold& fold, std::span<const std::byte* const> inputs,
                       std::byte* output, int64_t count) = 0;
};

/// Where the calling thread's streams stand on all devices that the process has used; for a thread
/// whose work goes on in another one.
std::vector<std::shared_ptr<Point>> points_of_thread();

/// Joins all of them.
void join_all(std::span<const std::shared_ptr<Point>> points);

}  // namespace hero::core
