#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/runtime.cuh>
#include <hero/dist/backends/nccl/lane.h>
#include <hero/dist/backends/nccl/rendezvous.h>

namespace hero::dist::nccl {
namespace {

constexpr int64_t kUuid = 32, kWord = kUuid + 12;  // characters
// NCCL lets ranks share a GPU from this version on, where the environment of each says so.
constexpr int kSharedGPUs = 23000;
constexpr const char* kShareVariable = "NCCL_MULTI_RANK_GPU_ENABLE";
constexpr const char* kLoadVariable = "CUDA_MODULE_LOADING";

bool says(const char* variable, std::string_view value) {
  const char* const said = std::getenv(variable);
  return said != nullptr && said == value;
}

// Asks every rank for its bytes, which come to `all` in the order of ranks.
std::shared_ptr<Pending> gather(Backend& rendezvous, const char* what, const core::Array& mine,
                                const core::Array& all) {
  Call call;
  call.op = Collective::all_gather;
  call.dtype = kUInt8;
  call.size = all.numel();
  call.counts = ChunkCounts::balanced(call.size, rendezvous.size());
  call.unit = what;
  call.input = mine.bytes();
  call.output = all.bytes();
  return rendezvous.post(std::move(call), mine, all);
}

// While NCCL joins the ranks they tell each other, round after round, who has been joined, until
// all have. A rank that fails or ends says nothing more, and the round that misses it tells the
// others, who would wait in NCCL for ever. `meanwhile`: what the rank does while it waits.
class Rounds {
 public:
  Rounds(Backend& rendezvous, const Patience& meanwhile)
      : rendezvous_(rendezvous), meanwhile_(meanwhile) {}

  // This rank still waits; an Error where another one has failed. Rounds of many ranks are many
  // messages: there is time between them, the more the longer NCCL takes.
  void not_yet() {
    if (meanwhile_) meanwhile_();
    if (round_ && (!round_->test() || Clock::now() < next_)) return;
    begin(0);
    next_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, kLongest);
  }
  // This rank is joined; returns when all are. An Error after `timeout` seconds.
  void joined(double timeout) {
    const Clock::time_point start = Clock::now();
    const auto late = [&] {
      return Clock::now() - start >= std::chrono::duration<double>(timeout);
    };
    while (true) {
      if (round_) {
        while (meanwhile_ && !round_->test() && !late()) {
          meanwhile_();
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
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
    all_ = core::Array::zeros({rendezvous_.size()}, kUInt8);
    round_ = gather(rendezvous_, "NCCL's communicator", mine_, all_);
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongest{64};

  Backend& rendezvous_;
  const Patience& meanwhile_;
  std::chrono::milliseconds pause_{1};
  Clock::time_point next_;
  std::shared_ptr<Pending> round_;
  core::Array mine_, all_;
};

// Makes a communicator of all ranks that go through these rounds.
CommOwner make(Rounds& rounds, const Make& how, const std::string& where, const Name& name,
               const Terms& terms) {
  const cuda::DeviceGuard guard(terms.device.index);
  const ncclComm_t handle =
      connect(library(), how, where, terms.timeouts.join, [&] { rounds.not_yet(); });
  CommOwner comm(handle == nullptr ? nullptr : new Comm(handle, name, terms));
  try {
    rounds.joined(terms.timeouts.join);
  } catch (...) {
    if (comm) comm->abort();
    throw;
  }
  return comm;
}

// That of all ranks of `rendezvous`, by an id.
CommOwner join(Backend& rendezvous, const Name& name, const Terms& terms,
               const Patience& meanwhile) {
  const bool sends = rendezvous.rank() == 0;
  core::Array id = sends ? make_id(name.axis)
                         : core::Array::zeros({static_cast<int64_t>(sizeof(ncclUniqueId))}, kUInt8);
  Call call;
  call.op = Collective::broadcast;
  call.dtype = kUInt8;
  call.root = 0;
  call.size = id.numel();
  call.unit = "NCCL's id";
  call.input = sends ? id.bytes() : nullptr;
  call.output = sends ? nullptr : id.bytes();
  rendezvous.post(std::move(call), sends ? id : core::Array(), sends ? core::Array() : id)->wait();
  Rounds rounds(rendezvous, meanwhile);
  const std::string& slow = library().no_split;
  const std::string where =
      "nccl: joining " + name.text() + (slow.empty() ? "" : ", by an id as " + slow);
  return make(rounds, by_id(library(), id_in(id), rendezvous.size(), name.rank), where, name,
              terms);
}

// Splits `parent`, whose ranks are those of `rendezvous`.
CommOwner split(Comm& parent, Backend& rendezvous, int color, const Name& name,
                const Patience& meanwhile) {
  Rounds rounds(rendezvous, meanwhile);
  parent.finish([&] { rounds.not_yet(); });  // NCCL splits what has nothing to do
  const std::string where = "nccl: splitting '" + parent.name().axis + "' for " + name.text();
  return make(rounds, by_split(library(), parent.handle(), color, name.rank), where, name,
              parent.terms());
}

// A second one of the same ranks, which are those of `rendezvous`; null where the rank is alone.
CommOwner twin(Comm& comm, Backend& rendezvous, const Patience& meanwhile) {
  if (rendezvous.size() == 1) return nullptr;
  const Name name{comm.name().axis + ", reductions", comm.name().rank};
  if (comm.library().CommSplit == nullptr) return join(rendezvous, name, comm.terms(), meanwhile);
  return split(comm, rendezvous, 0, name, meanwhile);
}

}  // namespace

std::shared_ptr<Backend> rendezvous_of(Backend& host, const std::string& axis) {
  std::vector<int> everyone(static_cast<size_t>(host.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return host.group(everyone, axis);
}

ChosenGpu choose_gpu(Backend& rendezvous, int local_rank, int local_size) {
  const int count = cuda::device_count();
  check(count > 0, "backend: nccl needs GPUs: ", cuda::reason());
  const Device device{DeviceType::cuda, static_cast<int8_t>(local_rank % count)};
  // the GPU, whether this rank may share it, whether its kernels are loaded before, its process
  std::string word = cuda::device_properties(device).uuid +
                     (says(kShareVariable, "1") ? '1' : '0') +
                     (says(kLoadVariable, "EAGER") ? '1' : '0') + std::to_string(::getpid());
  word.resize(static_cast<size_t>(kWord), ' ');
  const core::Array mine =
      core::Array::from(std::span(reinterpret_cast<const uint8_t*>(word.data()), word.size()),
                        {static_cast<int64_t>(word.size())});
  const core::Array all = core::Array::zeros({kWord * rendezvous.size()}, kUInt8);
  gather(rendezvous, "the ranks' GPUs", mine, all)->wait();
  const std::string_view words(reinterpret_cast<const char*>(all.data<uint8_t>()),
                               static_cast<size_t>(all.numel()));
  const auto of = [&](int rank, int64_t first, int64_t length) {
    return words.substr(static_cast<size_t>(kWord * rank + first), static_cast<size_t>(length));
  };
  const auto gpu_of = [&](int rank) { return of(rank, 0, kUuid); };
  const auto may_share = [&](int rank) { return of(rank, kUuid, 1) == "1"; };
  const auto loads_before = [&](int rank) { return of(rank, kUuid + 1, 1) == "1"; };
  const auto process_of = [&](int rank) { return of(rank, kUuid + 2, kWord - kUuid - 2); };
  const int version = library().version;
  bool shared = false;
  for (int rank = 0; rank < rendezvous.size(); ++rank) {
    for (int before = 0; before < rank; ++before) {
      if (gpu_of(before) != gpu_of(rank)) continue;
      shared = true;
      const bool allowed = version >= kSharedGPUs && may_share(before) && may_share(rank);
      check(allowed, "backend: nccl gives every rank a GPU, and ranks ", before, " and ", rank,
            " would have the same one: ", local_size, " ranks of this machine see ", count,
            "; start fewer there, let threads share a GPU with --backend local, or set ",
            kShareVariable, "=1 for every rank, which needs NCCL 2.30 or newer (here it is ",
            text_of_version(version), ")");
      check(process_of(before) != process_of(rank) || loads_before(rank), "backend: ranks ", before,
            " and ", rank,
            " are threads that share a GPU, and to load a kernel the driver may wait "
            "for it, and so for the other rank; set ",
            kLoadVariable, "=EAGER");
    }
  }
  return {device, shared};
}

Comms make_communicators(Backend& rendezvous, const std::string& axis, const Terms& terms) {
  Comms comms;
  comms.gathers = join(rendezvous, {axis, rendezvous.rank()}, terms, {});
  comms.reductions = twin(*comms.gathers, rendezvous, {});
  return comms;
}

Comms split_communicators(const Comms& parent, Backend& rendezvous, const Subset& subset,
                          const std::string& axis, const Patience& meanwhile) {
  const bool none = subset.rendezvous == nullptr;
  const Comm& whole = *parent.gathers;
  Comms comms;
  if (whole.library().CommSplit != nullptr) {
    const int color = none ? -1 : std::ranges::min(subset.members);
    const int key = none ? 0 : subset.rendezvous->rank();
    comms.gathers = split(*parent.gathers, rendezvous, color, {axis, key}, meanwhile);
  } else if (!none) {
    comms.gathers =
        join(*subset.rendezvous, {axis, subset.rendezvous->rank()}, whole.terms(), meanwhile);
  }
  if (!none) comms.reductions = twin(*comms.gathers, *subset.rendezvous, meanwhile);
  return comms;
}

}  // namespace hero::dist::nccl
