#include <algorithm>
#include <span>

#include <hero/cuda/runtime/runtime.cuh>
#include <hero/dist/engines/nccl/lane.h>

namespace hero::dist::nccl {

core::Array make_id(const std::string& axis) {
  ncclUniqueId id = {};
  check_nccl(library(), library().GetUniqueId(&id), nullptr, "nccl: an id for '" + axis + "'");
  const auto* const bytes = reinterpret_cast<const uint8_t*>(id.internal);
  return core::Array::from(std::span(bytes, sizeof(id.internal)),
                           {static_cast<int64_t>(sizeof(id.internal))});
}

ncclUniqueId id_in(const core::Array& bytes) {
  ncclUniqueId id = {};
  std::copy_n(bytes.data<uint8_t>(), sizeof(id.internal), reinterpret_cast<uint8_t*>(id.internal));
  return id;
}

Lane::Lane(Engine& meeting, int from, int to, const std::string& axis, Device device,
           double timeout)
    : name_{axis + ", messages of rank " + std::to_string(from) + " to rank " + std::to_string(to),
            meeting.rank() == from ? 0 : 1},
      device_(device),
      timeout_(timeout) {
  const bool sends = name_.rank == 0;
  id_ = sends ? make_id(axis)
              : core::Array::zeros({static_cast<int64_t>(sizeof(ncclUniqueId))}, kUInt8);
  Call call;
  call.op = sends ? Collective::send : Collective::recv;
  call.dtype = kUInt8;
  call.root = sends ? to : from;
  call.size = id_.numel();
  call.unit = "NCCL's id";
  call.input = sends ? id_.bytes() : nullptr;
  call.output = sends ? nullptr : id_.bytes();
  id_here_ =
      meeting.post(std::move(call), sends ? id_ : core::Array(), sends ? core::Array() : id_);
}

Comm* Lane::ready() {
  if (comm_) return comm_.get();
  if (!joining_) {
    if (!id_here_->test()) return nullptr;
    const cuda::DeviceGuard guard(device_.index);
    joining_ = std::make_unique<Joining>(library(), id_in(id_), 2, name_);
  }
  if (!joining_->ready()) return nullptr;
  comm_ = std::make_unique<Comm>(joining_->take(), name_, device_, timeout_);
  joining_.reset();
  return comm_.get();
}

void Lane::abort(std::chrono::steady_clock::time_point deadline) noexcept {
  joining_.reset();
  if (comm_) comm_->abort(deadline);
}

}  // namespace hero::dist::nccl
