#pragma once
// OffloadTarget: where the shard of a unit lies while nothing computes with it.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <hero/core/accelerator.h>
#include <hero/core/functions/codec.h>
#include <hero/dist/data_parallel/disk_shard.h>
#include <hero/dist/data_parallel/flat_parameter.h>
#include <hero/dist/data_parallel/unit_options.h>

namespace hero::dist {

/// The base class is for a unit without offload, whose shard lies where the unit computes.
class OffloadTarget {
 public:
  /// This rank's shard in memory that the all-gather can read. While `beside` lives, work that the
  /// calling thread queues on the device runs after the copy that writes `part`.
  struct Fetched {
    Array part;
    std::unique_ptr<core::StreamGuard> beside = {};
  };

  OffloadTarget() = default;
  virtual ~OffloadTarget() = default;
  OffloadTarget(const OffloadTarget&) = delete;
  OffloadTarget& operator=(const OffloadTarget&) = delete;

  /// Whether the shard has memory of its own beside that of the flat parameter.
  virtual bool is_apart() const { return false; }
  /// Whether shards and gradients are copied between host memory and a device.
  virtual bool crosses() const { return false; }
  /// The shard's slot in a file; null: it lies in none.
  virtual DiskShard* disk() const { return nullptr; }

  /// Zeros for a shard of a unit that computes on `device`.
  virtual Array zeros(int64_t count, DType dtype, Device device) const;
  /// Takes a shard that has its values, in place of an earlier one; `unit` is the name of its unit,
  /// `of_root` whether that is the unit of the outermost module.
  virtual void keep(const Array& shard, const std::string& unit, bool of_root);
  /// Called when the unit becomes part of a larger sharded module: from now on its name is `unit`,
  /// and it is offloaded in this order.
  virtual void nest(const std::string& unit, const std::shared_ptr<DiskOrder>& order);

  /// \name Parameters
  /// \{
  /// Begins to copy the shard to this rank's elements of flat.whole, in the dtype of flat.whole; or
  /// returns the shard itself, if no copy is needed.
  virtual Fetched fetch(const FlatParameter& flat);
  /// Does the same with the encoded shard, which is encoded where the shard lies and copied to
  /// `bytes`, where the unit computes.
  virtual Fetched fetch_encoded(core::Codec codec, const FlatParameter& flat, const Array& bytes);
  /// Makes work that the calling thread queues on the device from now on run after the copies of
  /// fetch().
  virtual void join() const {}
  /// Begins to read the shard, for a later fetch().
  virtual void read_ahead() {}
  /// Called when the shard is not needed for now.
  virtual void leave() {}
  /// Waits until no copy reads the shard any more, so that it may be written, and until it has
  /// arrived at the target.
  virtual void wait() {}
  /// \}

  /// \name Gradients
  /// \{
  /// Begins to copy a gradient, in this dtype, to where the optimizer steps the shard; the result
  /// has its values after wait_gradients().
  virtual Array begin_gradient(const Array& gradient, DType dtype);
  /// Waits until all gradients have arrived.
  virtual void wait_gradients() {}
  /// \}
};

/// Makes the target for a unit that computes on `device`. `is_stepped` returns whether the next
/// optimizer step updates the shard.
std::unique_ptr<OffloadTarget> make_offload_target(const UnitOptions& options, Device device,
                                                   std::function<bool()> is_stepped);

}  // namespace hero::dist
