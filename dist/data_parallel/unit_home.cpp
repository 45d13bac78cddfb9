// What a unit does whose shards have a home in the host's memory, away from the device on which it
// computes.
#include <algorithm>
#include <utility>

#include <hero/core/backend.h>
#include <hero/core/planned_device.h>
#include <hero/dist/data_parallel/unit.h>

namespace hero::dist {

// [note: streams of gathering] The gathering is asked for beside the copy of this rank's part, so
// that what computes meanwhile waits for neither: a backend with streams of its own goes on behind
// the stream in which it is asked. The backends without use the thread's, which must wait;
// simulated ranks stand for those of NCCL.
void Unit::gather_from_home() {
  const Array mine = full_.slice(0, own_.begin, own_.begin + own_.count);
  std::unique_ptr<core::Aside> aside;
  full_.storage().bump_version();
  if (disk_) {
    copy_from_disk(mine);
  } else {
    aside = home_->begin_up(shard_, mine);
  }
  if (groups_.shard.size() == 1) return;
  const auto beside = before_gather(std::move(aside));
  gather_ =
      groups_.shard.all_gather(full_, mine, {.async = true, .unit = name_, .counts = counts_});
}

// The same of the shard's bytes in a codec, which the host makes.
void Unit::gather_bytes_from_home(const Array& mine) {
  const core::Codec codec = *options_.quantize.weights;
  std::unique_ptr<core::Aside> aside;
  if (home_) {
    const Array bytes = home_->zeros(mine.numel(), kUInt8).reshape(mine.shape());
    core::encode(codec, shard_, own_.count, bytes);
    aside = home_->begin_up(bytes, mine);
  } else {
    core::encode(codec, shard_, own_.count, mine);
  }
  if (disk_) disk_->leave();
  const auto beside = before_gather(std::move(aside));
  gather_ = groups_.shard.all_gather(gathered_bytes_, mine, {.async = true, .unit = name_});
}

// Beside which the gathering is asked for; see [note: streams of gathering].
std::unique_ptr<core::Aside> Unit::before_gather(std::unique_ptr<core::Aside> aside) const {
  const BackendKind backend = groups_.shard.backend_kind();
  if (!aside || backend == BackendKind::nccl || backend == BackendKind::simulated) return aside;
  aside.reset();
  home_->join_up();
  return aside;
}

// What comes from the disk lies in ordinary memory, from which the host copies itself.
void Unit::copy_from_disk(const Array& mine) const {
  if (mine.numel() > 0) {
    disk_->fetch();
    core::backend(mine.device()).copy(shard_, mine);
    if (home_) groups_.shard.traffic().move(Transfer::to_device, mine.nbytes());
  }
  disk_->leave();
}

Array Unit::zeros_apart(DType dtype) const {
  const bool pinned = home_ && options_.offload.disk == nullptr;
  if (pinned) return home_->zeros(own_.count, dtype);
  const bool simulated = groups_.shard.backend_kind() == BackendKind::simulated;
  return Array::zeros({own_.count}, dtype, simulated ? core::host_of(kMeta) : kCpu);
}

std::unique_ptr<DiskHome> Unit::make_disk_home(const Array& shard) const {
  const auto is_stepped = [this] {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.leaf.grad().defined(); });
  };
  return std::make_unique<DiskHome>(
      *options_.offload.disk, shard.storage_ref(),
      DiskHomeOptions{.unit = name_, .stays = is_of_root(), .is_stepped = is_stepped},
      options_.disk_order, groups_.shard.traffic());
}

void Unit::wait_home() {
  if (home_) home_->wait_up();
  if (!disk_) return;
  disk_->leave();
  disk_->wait();
}

void Unit::read_ahead() const {
  const bool gathers = state_ == State::sharded && (owns_storage_ || is_changed());
  if (disk_ && gathers && !has_secondary()) disk_->begin_fetch();
}

// Gradients of 16 bits go down as they are and become wider there, which is exact.
Array Unit::begin_down(const Array& gradient) {
  const DType wanted = members_.front().leaf.dtype();
  const bool narrow = item_size(gradient.dtype()) < item_size(wanted);
  const MemoryScope tag(MemoryTag::gradient);
  return home_->begin_down(narrow ? gradient : gradient.to(wanted));
}

void Unit::give_gradient(Member& member, const Array& gradient) {
  if (!home_) return add_gradient(member, gradient);
  const bool there = core::kernels_of(gradient.device()) != DeviceType::cpu;
  landing_.emplace_back(&member, there ? begin_down(gradient) : gradient);
}

void Unit::land() {
  if (landing_.empty()) return;
  home_->wait_down();
  for (const auto& [member, gradient] : std::exchange(landing_, {})) {
    add_gradient(*member, gradient);
  }
}

void Unit::drop_landing() {
  if (home_) home_->wait_down();
  landing_.clear();
}

}  // namespace hero::dist
