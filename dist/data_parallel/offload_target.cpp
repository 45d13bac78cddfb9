#include <hero/core/device/backend.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/exchange.h>
#include <hero/dist/data_parallel/offload_target.h>

namespace hero::dist {

Array OffloadTarget::zeros(int64_t count, DType dtype, Device device) const {
  return Array::zeros({count}, dtype, device);
}
void OffloadTarget::keep(const Array& /*shard*/, const std::string& /*unit*/, bool /*of_root*/) {}
void OffloadTarget::nest(const std::string& /*unit*/, const std::shared_ptr<DiskOrder>& /*order*/) {
}

OffloadTarget::Fetched OffloadTarget::fetch(const FlatParameter& flat) {
  if (!flat.owns_storage || flat.shard.dtype() == flat.whole.dtype()) return {flat.shard};
  Array part = flat.own_of_whole();
  copy_values(flat.shard, part);
  return {part};
}

OffloadTarget::Fetched OffloadTarget::fetch_encoded(core::Codec codec, const FlatParameter& flat,
                                                    const Array& bytes) {
  core::encode(codec, flat.shard, flat.own.count, bytes);
  return {bytes};
}

Array OffloadTarget::begin_gradient(const Array& gradient, DType /*dtype*/) { return gradient; }

namespace {

// Page-locked memory of the host. Copies to the device and from it run asynchronously, in streams
// of their own beside the one in which the unit computes; the host waits only in the functions
// whose comment says so.
class HostTarget : public OffloadTarget {
 public:
  HostTarget(Device device, const Communicator& group) : device_(device), group_(group) {}
  ~HostTarget() override;

  bool is_apart() const override { return true; }
  bool crosses() const override { return true; }
  Array zeros(int64_t count, DType dtype, Device device) const override;
  Fetched fetch(const FlatParameter& flat) override;
  Fetched fetch_encoded(core::Codec codec, const FlatParameter& flat, const Array& bytes) override;
  void join() const override {
    if (to_device_) to_device_->join();
  }
  void wait() override;
  Array begin_gradient(const Array& gradient, DType dtype) override;
  void wait_gradients() override;

 private:
  core::Accelerator& accelerator() const { return core::accelerator("offload", device_); }
  Array pinned(int64_t count, DType dtype) const { return accelerator().pinned({count}, dtype); }
  std::shared_ptr<core::DeviceEvent> begin_copy(const Array& from, const Array& to) const;
  const Array& rounded(const Array& values, DType dtype);
  Fetched begin_to_device(const Array& values, const Array& target);

  Device device_;
  Communicator group_;
  Array rounded_;                 // the shard in another dtype, as it is copied
  uint32_t rounded_version_ = 0;  // of the shard that rounded_ has
  std::shared_ptr<core::DeviceEvent> to_device_, to_host_;  // behind the last copies
};

HostTarget::~HostTarget() {
  try {
    HostTarget::wait();
    HostTarget::wait_gradients();
  } catch (const std::exception&) {
    // a device that has failed copies no more
  }
}

Array HostTarget::zeros(int64_t count, DType dtype, Device /*device*/) const {
  const Array values = pinned(count, dtype);
  if (count > 0) core::backend(values.device()).run(core::call::Fill{values, 0});
  return values;
}

std::shared_ptr<core::DeviceEvent> HostTarget::begin_copy(const Array& from,
                                                          const Array& to) const {
  accelerator().copy_async(from, to);
  return accelerator().exchange(device_.index).record_event();
}

// Values are rounded before they are copied, once for each version of the shard.
const Array& HostTarget::rounded(const Array& values, DType dtype) {
  const uint32_t version = values.storage().version();
  const bool fits = rounded_.defined() && rounded_.dtype() == dtype;
  if (fits && rounded_version_ == version) return rounded_;
  wait();  // it may still be read
  if (!fits) {
    const MemoryScope tag(MemoryTag::communication);
    rounded_ = pinned(values.numel(), dtype);
  }
  core::backend(rounded_.device()).run(core::call::Copy{values, rounded_});
  rounded_version_ = version;
  return rounded_;
}

// [note: streams of gathering] The gathering is asked for beside the copy of this rank's part, so
// that what computes meanwhile waits for neither: a backend with streams of its own goes on behind
// the stream in which it is asked. The backends without use the thread's, which must wait;
// simulated ranks stand for those of NCCL.
OffloadTarget::Fetched HostTarget::begin_to_device(const Array& values, const Array& target) {
  if (values.numel() == 0) return {target};
  const Array& from = values.dtype() == target.dtype() ? values : rounded(values, target.dtype());
  std::unique_ptr<core::StreamGuard> beside =
      accelerator().copy_stream(core::CopyDirection::to_device, device_.index);
  to_device_ = begin_copy(from, target);
  target.storage().bump_version();
  group_.traffic().move(Transfer::to_device, from.nbytes());
  const BackendKind backend = group_.backend_kind();
  const bool has_streams = backend == BackendKind::nccl || backend == BackendKind::simulated;
  if (group_.size() > 1 && !has_streams) {
    beside.reset();
    join();
  }
  return {target, std::move(beside)};
}

OffloadTarget::Fetched HostTarget::fetch(const FlatParameter& flat) {
  flat.whole.storage().bump_version();
  return begin_to_device(flat.shard, flat.own_of_whole());
}

OffloadTarget::Fetched HostTarget::fetch_encoded(core::Codec codec, const FlatParameter& flat,
                                                 const Array& bytes) {
  const Array here = zeros(bytes.numel(), kUInt8, device_).reshape(bytes.shape());
  core::encode(codec, flat.shard, flat.own.count, here);
  return begin_to_device(here, bytes);
}

void HostTarget::wait() {
  if (const auto event = std::exchange(to_device_, nullptr)) event->wait();
}

// Gradients of 16 bits are copied as they are and become wider here, which is exact.
Array HostTarget::begin_gradient(const Array& gradient, DType dtype) {
  const MemoryScope tag(MemoryTag::gradient);
  const bool narrow = item_size(gradient.dtype()) < item_size(dtype);
  const Array there = narrow ? gradient : gradient.to(dtype);
  const Array here = pinned(there.numel(), there.dtype());
  if (there.numel() == 0) return here;
  const auto beside = accelerator().copy_stream(core::CopyDirection::to_host, device_.index);
  to_host_ = begin_copy(there.contiguous().reshape({there.numel()}), here);
  group_.traffic().move(Transfer::to_host, there.nbytes());
  return here;
}

void HostTarget::wait_gradients() {
  if (const auto event = std::exchange(to_host_, nullptr)) event->wait();
}

// A slot of a file. What was read lies in ordinary memory, from which the host copies itself.
// `host`: what there is without a file.
class DiskTarget : public OffloadTarget {
 public:
  DiskTarget(const UnitOptions& options, std::unique_ptr<OffloadTarget> host,
             std::function<bool()> is_stepped)
      : file_(*options.offload.disk),
        host_(std::move(host)),
        group_(options.groups.shard),
        order_(options.disk_order),
        is_stepped_(std::move(is_stepped)) {}

  bool is_apart() const override { return true; }
  bool crosses() const override { return host_->crosses(); }
  DiskShard* disk() const override { return slot_.get(); }
  Array zeros(int64_t count, DType dtype, Device /*device*/) const override {
    const bool simulated = group_.backend_kind() == BackendKind::simulated;
    return Array::zeros({count}, dtype, simulated ? core::host_of(kMeta) : kCpu);
  }
  void keep(const Array& shard, const std::string& unit, bool of_root) override {
    slot_ = std::make_unique<DiskShard>(
        file_, shard.storage_ref(),
        DiskShardOptions{.unit = unit, .stays = of_root, .is_stepped = is_stepped_}, order_,
        group_.traffic());
  }
  void nest(const std::string& unit, const std::shared_ptr<DiskOrder>& order) override {
    order_ = order;
    slot_->nest(unit, order);
  }

  Fetched fetch(const FlatParameter& flat) override {
    Array part = flat.own_of_whole();
    flat.whole.storage().bump_version();
    if (part.numel() > 0) {
      slot_->fetch();
      core::backend(part.device()).run(core::call::Copy{flat.shard, part});
      if (crosses()) group_.traffic().move(Transfer::to_device, part.nbytes());
    }
    leave();
    return {part};
  }
  Fetched fetch_encoded(core::Codec codec, const FlatParameter& flat, const Array& bytes) override {
    Fetched fetched = host_->fetch_encoded(codec, flat, bytes);
    leave();
    return fetched;
  }
  void join() const override { host_->join(); }
  void read_ahead() override { slot_->begin_fetch(); }
  void leave() override { slot_->leave(); }
  void wait() override {
    host_->wait();
    leave();
    slot_->wait();
  }
  Array begin_gradient(const Array& gradient, DType dtype) override {
    return host_->begin_gradient(gradient, dtype);
  }
  void wait_gradients() override { host_->wait_gradients(); }

 private:
  core::SwapFile& file_;
  std::unique_ptr<OffloadTarget> host_;
  Communicator group_;
  std::shared_ptr<DiskOrder> order_;
  std::function<bool()> is_stepped_;
  std::unique_ptr<DiskShard> slot_;
};

}  // namespace

std::unique_ptr<OffloadTarget> make_offload_target(const UnitOptions& options, Device device,
                                                   std::function<bool()> is_stepped) {
  const Offload& offload = options.offload;
  auto target = std::make_unique<OffloadTarget>();
  if (offload.any() && core::kernels_of(device) == DeviceType::cuda) {
    target = std::make_unique<HostTarget>(device, options.groups.shard);
  }
  if (offload.disk == nullptr) return target;
  return std::make_unique<DiskTarget>(options, std::move(target), std::move(is_stepped));
}

}  // namespace hero::dist
