#pragma once
// Home: the host's memory as the place of shards whose units compute on a device, and the copies
// between the two.
#include <memory>
#include <optional>

#include <hero/core/accelerator.h>
#include <hero/core/array.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

/// Copies of one unit. The host waits for none of them until it says so: copies up and copies down
/// go their own ways, in streams beside the one in which the unit computes. `traffic` counts their
/// bytes.
class Home {
 public:
  /// `device`: where the unit computes; one with memory of its own.
  Home(Device device, Traffic& traffic) : device_(device), traffic_(traffic) {}
  /// Ends what is under way.
  ~Home();
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  /// Zeros in page-locked memory of the host.
  Array zeros(int64_t count, DType dtype) const;

  /// Begins to copy `values`, which lie here, to `target` on the device, in target's dtype; there
  /// they are rounded before they go, once for each version of the values. What the calling thread
  /// asks of the device while the result lives comes behind the copy.
  [[nodiscard]] std::unique_ptr<core::Aside> begin_up(const Array& values, const Array& target);
  /// What the calling thread asks of the device from now on comes behind the copies up.
  void join_up() const;
  /// Returns when they have arrived: the values may be written.
  void wait_up();

  /// Begins to copy a gradient of the device; the result has its values after wait_down().
  Array begin_down(const Array& gradient);
  /// Returns when all copies down have arrived.
  void wait_down();

 private:
  core::Accelerator& accelerator() const { return core::accelerator("offload", device_); }
  std::shared_ptr<core::Point> begin_copy(const Array& from, const Array& to) const;
  Array pinned(int64_t count, DType dtype) const;
  const Array& rounded(const Array& values, DType dtype);

  Device device_;
  Traffic& traffic_;
  Array rounded_;                           // values in another dtype, as they go up
  uint32_t rounded_version_ = 0;            // of the values that rounded_ has
  std::shared_ptr<core::Point> up_, down_;  // behind the last copy of each way
};

}  // namespace hero::dist
