#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/dist/engines/nccl/lane.h>
#include <hero/dist/engines/nccl/meeting.h>

namespace hero::dist::nccl {
namespace {

constexpr int64_t kUuid = 32;  // characters

// Asks every rank for its bytes, which come to `all` in the order of ranks.
std::shared_ptr<Pending> gather(Engine& meeting, const char* what, const core::Array& mine,
                                const core::Array& all) {
  Call call;
  call.op = Collective::all_gather;
  call.dtype = kUInt8;
  call.size = all.numel();
  call.counts = PartCounts::balanced(call.size, meeting.size());
  call.unit = what;
  call.input = mine.bytes();
  call.output = all.bytes();
  return meeting.post(std::move(call), mine, all);
}

// While NCCL joins the ranks they tell each other, round after round, who has been joined, until
// all have. A rank that fails or ends says nothing more, and the round that misses it tells the
// others, who would wait in NCCL for ever.
class Rounds {
 public:
  explicit Rounds(Engine& meeting) : meeting_(meeting) {}

  // This rank still waits; an Error where another one has failed.
  void not_yet() {
    if (!round_ || round_->test()) begin(0);
  }
  // This rank is joined; returns when all are.
  void joined() {
    while (true) {
      if (round_) {
        round_->wait();
        const uint8_t* said = all_.data<uint8_t>();
        if (std::all_of(said, said + all_.numel(), [](uint8_t one) { return one == 1; })) return;
      }
      begin(1);
    }
  }

 private:
  void begin(uint8_t is_joined) {
    mine_ = core::Array::from(std::span<const uint8_t>(&is_joined, 1), {1});
    all_ = core::Array::zeros({meeting_.size()}, kUInt8);
    round_ = gather(meeting_, "NCCL's communicator", mine_, all_);
  }

  Engine& meeting_;
  std::shared_ptr<Pending> round_;
  core::Array mine_, all_;
};

}  // namespace

std::shared_ptr<Engine> meeting_of(Engine& host, const std::string& axis) {
  std::vector<int> everyone(static_cast<size_t>(host.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return host.group(everyone, axis);
}

Device choose_gpu(Engine& meeting, int local_rank, int local_size) {
  const int count = cuda::device_count();
  check(count > 0, "engine: nccl needs GPUs: ", cuda::reason());
  const Device device{DeviceType::cuda, static_cast<int8_t>(local_rank % count)};
  const std::string uuid = cuda::device_properties(device).uuid;
  const core::Array mine =
      core::Array::from(std::span(reinterpret_cast<const uint8_t*>(uuid.data()), uuid.size()),
                        {static_cast<int64_t>(uuid.size())});
  const core::Array all = core::Array::zeros({kUuid * meeting.size()}, kUInt8);
  gather(meeting, "the ranks' GPUs", mine, all)->wait();
  const std::string_view uuids(reinterpret_cast<const char*>(all.data<uint8_t>()),
                               static_cast<size_t>(all.numel()));
  const auto of = [&](int rank) {
    return uuids.substr(static_cast<size_t>(kUuid * rank), static_cast<size_t>(kUuid));
  };
  for (int rank = 0; rank < meeting.size(); ++rank) {
    for (int before = 0; before < rank; ++before) {
      check(of(before) != of(rank), "engine: nccl gives every rank a GPU, and ranks ", before,
            " and ", rank, " would have the same one: ", local_size, " ranks of this machine see ",
            count, "; start fewer there, or let threads share a GPU with --engine local");
    }
  }
  return device;
}

std::unique_ptr<Comm> meet(Engine& meeting, const std::string& axis, Device device,
                           double timeout) {
  const bool sends = meeting.rank() == 0;
  core::Array id = sends ? make_id(axis)
                         : core::Array::zeros({static_cast<int64_t>(sizeof(ncclUniqueId))}, kUInt8);
  Call call;
  call.op = Collective::broadcast;
  call.dtype = kUInt8;
  call.root = 0;
  call.size = id.numel();
  call.unit = "NCCL's id";
  call.input = sends ? id.bytes() : nullptr;
  call.output = sends ? nullptr : id.bytes();
  meeting.post(std::move(call), sends ? id : core::Array(), sends ? core::Array() : id)->wait();

  Rounds rounds(meeting);
  const Name name{axis, meeting.rank()};
  const cuda::DeviceGuard guard(device.index);
  const ncclComm_t handle =
      connect(library(), id_in(id), meeting.size(), name, timeout, [&] { rounds.not_yet(); });
  auto comm = std::make_unique<Comm>(handle, name, device, timeout);
  try {
    rounds.joined();
  } catch (...) {
    comm->abort(std::chrono::steady_clock::now());
    throw;
  }
  return comm;
}

}  // namespace hero::dist::nccl
