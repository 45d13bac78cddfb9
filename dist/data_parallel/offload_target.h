#pragma once
// OffloadTarget: where the shard of a unit lies while nobody computes with it.
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

/// This one stands for no offload: the shard lies where its unit computes.
class OffloadTarget {
 public:
  /// This rank's part of what is gathered, where the collective may read it. What the calling
  /// thread asks of the device while `beside` lives comes behind the copy that writes `part`.
  struct Fetched {
    Array part;
    std::unique_ptr<core::Aside> beside = {};
  };

  OffloadTarget() = default;
  virtual ~OffloadTarget() = default;
  OffloadTarget(const OffloadTarget&) = delete;
  OffloadTarget& operator=(const OffloadTarget&) = delete;

  /// The shard has memory of its own beside that of the flat parameter.
  virtual bool is_apart() const { return false; }
  /// Shards and gradients cross between the host's memory and a device.
  virtual bool crosses() const { return false; }
  /// The shard's slot in a file; null: it lies in none.
  virtual DiskShard* disk() const { return nullptr; }

  /// Zeros for a shard of a unit that computes on `device`.
  virtual Array zeros(int64_t count, DType dtype, Device device) const;
  /// The shard has its values and is kept here from now on, in place of a shard before; `unit` is
  /// the name of its unit, `of_root` whether that is the outermost module's.
  virtual void keep(const Array& shard, const std::string& unit, bool of_root);
  /// Its unit has another name, and is offloaded in this order.
  virtual void nest(const std::string& unit, const std::shared_ptr<DiskOrder>& order);

  /// \name Parameters
  /// \{
  /// Begins to copy the shard to this rank's elements of flat.whole, in its dtype; or gives the
  /// shard itself, where that will do.
  virtual Fetched fetch(const FlatParameter& flat);
  /// The same of the shard in a codec's format, which is made where the shard lies; `bytes` is
  /// where the unit computes.
  virtual Fetched fetch_encoded(core::Codec codec, const FlatParameter& flat, const Array& bytes);
  /// What the calling thread asks of the device from now on comes behind what was fetched.
  virtual void join() const {}
  /// Begins to read the shard, for a fetch to come.
  virtual void read_ahead() {}
  /// Nobody needs the shard for now.
  virtual void leave() {}
  /// Returns when no copy reads the shard any more, so that it may be written, and when it is where
  /// it belongs.
  virtual void wait() {}
  /// \}

  /// \name Gradients
  /// \{
  /// Begins to copy a gradient, in this dtype, to where the shard is stepped; it has its values
  /// after wait_gradients().
  virtual Array begin_gradient(const Array& gradient, DType dtype);
  /// Returns when all gradients have arrived.
  virtual void wait_gradients() {}
  /// \}
};

/// For a unit that computes on `device`. `is_stepped` says whether the shard gets a step next.
std::unique_ptr<OffloadTarget> make_offload_target(const UnitOptions& options, Device device,
                                                   std::function<bool()> is_stepped);

}  // namespace hero::dist
