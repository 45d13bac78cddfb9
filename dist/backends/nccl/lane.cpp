#include <algorithm>
#include <chrono>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include <hero/cuda/runtime/runtime.cuh>
#include <hero/dist/backends/nccl/lane.h>

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

namespace {

core::Array byte_on(const cuda::Stream& stream) {
  const cuda::StreamScope scope(stream);
  return core::Array::empty({1}, kUInt8, stream.device());
}

// NCCL connects two ranks in their first call, in which the host of each waits for the other. Ranks
// that so wait for one another in a circle, each in another lane, would wait for ever: a lane's
// first byte goes while nobody waits for it.
void connect_ends(ncclComm_t comm, int me, const core::Array& byte, const cuda::Stream& stream,
                  const std::string& where) {
  const Library& nccl = library();
  const auto queue = static_cast<cudaStream_t>(stream.handle());
  check_nccl(nccl, nccl.GroupStart(), nullptr, where);
  const ncclResult_t asked = me == 0 ? nccl.Send(byte.bytes(), 1, ncclUint8, 1, comm, queue)
                                     : nccl.Recv(byte.bytes(), 1, ncclUint8, 0, comm, queue);
  check_nccl(nccl, nccl.GroupEnd(), nullptr, where);
  check_nccl(nccl, asked, nullptr, where);
  while (!stream.query()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

Lane::Lane(Backend& rendezvous, int from, int to, const std::string& axis, Terms terms)
    : name_{axis + ", messages of rank " + std::to_string(from) + " to rank " + std::to_string(to),
            rendezvous.rank() == from ? 0 : 1},
      terms_(std::move(terms)),
      stream_(terms_.device, cuda::Stream::Priority::high),
      first_byte_(byte_on(stream_)) {
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
      rendezvous.post(std::move(call), sends ? id_ : core::Array(), sends ? core::Array() : id_);
}

Comm* Lane::ready() {
  if (comm_) return comm_.get();
  if (!joining_) {
    if (!id_here_->test()) return nullptr;
    const cuda::DeviceGuard guard(terms_.device.index);
    const std::string where = "nccl: joining " + name_.text();
    connecting_ = std::make_unique<cuda::AwaitedWork>(terms_.device.index);
    joining_ = std::make_unique<Joining>(
        library(), by_id(library(), id_in(id_), 2, name_.rank), where,
        [where, me = name_.rank, byte = first_byte_, stream = stream_](ncclComm_t comm) {
          connect_ends(comm, me, byte, stream, where);
        });
  }
  if (!joining_->ready()) return nullptr;
  comm_ = CommOwner(new Comm(joining_->take(), name_, terms_, stream_));
  first_byte_ = {};
  joining_.reset();
  connecting_.reset();
  return comm_.get();
}

std::optional<std::thread> Lane::leave() noexcept {
  if (!joining_) return std::nullopt;
  struct Left {
    std::unique_ptr<cuda::AwaitedWork> connecting;  // ends behind the abort
    std::unique_ptr<Joining> joining;
  } left{std::move(connecting_), std::move(joining_)};
  try {
    return std::thread([ending = std::move(left)]() mutable { ending.joining.reset(); });
  } catch (const std::system_error&) {
    return std::nullopt;  // there is no thread to be had: it has been aborted here
  }
}

}  // namespace hero::dist::nccl
