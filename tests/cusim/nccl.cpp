// NCCL over host memory. A call is a piece of work of its stream. It has what it needs when the
// streams of the others have come to their parts of it; the first stream to come there brings the
// others so far and moves the bytes. A host that waits for a call whose partners have not asked for
// theirs would hang: here it ends the program, unless a test has it wait (cusim::wait_patiently).
// Between processes: nccl_files.h.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_calls.h"
#include "nccl_files.h"
#include <unistd.h>

#include <hero/core/dtype.h>
#include <hero/dist/backends/ordered_reduce.h>

namespace {

using cusim::nccl::broken;
using cusim::nccl::bytes_of;
using cusim::nccl::fail;
using cusim::nccl::Item;
using cusim::nccl::ItemPtr;
using cusim::nccl::Kind;
using cusim::nccl::Party;
using hero::DType;

thread_local int depth = 0;
thread_local std::vector<ItemPtr> grouped;

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return hero::kUInt8;
    case ncclInt32:
      return hero::kInt32;
    case ncclInt64:
      return hero::kInt64;
    case ncclFloat16:
      return hero::kFloat16;
    case ncclFloat32:
      return hero::kFloat32;
    case ncclFloat64:
      return hero::kFloat64;
    case ncclBfloat16:
      return hero::kBFloat16;
  }
  fail("an unknown type");
}

// Aborted communicators stay in memory: work of their streams still looks at them.
bool over(const Item& item) { return item.comm->aborted; }

// The other end of a message, null while there is none; of a collective, the call itself.
ItemPtr other_end(const ItemPtr& mine) {
  if (!mine->is_message()) return mine;
  Party& party = *mine->comm->party;
  const bool sends = mine->kind == Kind::send;
  const std::pair lane =
      sends ? std::pair(mine->rank, mine->peer) : std::pair(mine->peer, mine->rank);
  const auto& own = (sends ? party.sends : party.recvs)[lane];
  const auto& other = (sends ? party.recvs : party.sends)[lane];
  const auto place = std::find(own.begin(), own.end(), mine) - own.begin();
  return static_cast<size_t>(place) < other.size() ? other[static_cast<size_t>(place)] : nullptr;
}

// Whether the stream of another rank has come to its part. Who waits patiently is told nothing by
// the end of another's communicator, as it would be by nothing else.
bool has_come(const ItemPtr& item) {
  if (item->done) return true;
  if (over(*item)) return !cusim::nccl::is_patient();
  return !cusim::nccl::is_held(item) && cusim::go_on(item->before->stream, item->before->at);
}

// Whether all ranks have asked for a collective, and their streams have come to it.
bool all_have_come(const ItemPtr& mine) {
  const auto& all = mine->comm->party->collectives;
  const auto& own = all[static_cast<size_t>(mine->rank)];
  const auto place = static_cast<size_t>(std::find(own.begin(), own.end(), mine) - own.begin());
  return std::all_of(all.begin(), all.end(), [&](const auto& items) {
    return place < items.size() && has_come(items[place]);
  });
}

bool can_begin(const ItemPtr& mine) {
  if (mine->done || over(*mine)) return true;
  if (!mine->is_message()) return all_have_come(mine);
  const ItemPtr other = other_end(mine);
  return other != nullptr && has_come(other);
}

// Adds up from the last rank to the first: neither Order::tree nor Order::ranks.
void reduce(const std::vector<ItemPtr>& all, size_t skip, void* to, size_t count) {
  using hero::core::Combine;
  constexpr Combine ops[] = {Combine::sum, Combine::product, Combine::max, Combine::min,
                             Combine::mean};
  const Item& first = *all.front();
  const size_t item = bytes_of(first) / (first.count == 0 ? 1 : first.count);
  std::vector<const std::byte*> inputs;
  for (size_t i = all.size(); i-- > 0;) {
    inputs.push_back(static_cast<const std::byte*>(all[i]->from) + skip * item);
  }
  std::vector<std::byte> sum(count * item);
  const hero::DType dtype = dtype_of(first.type);
  hero::dist::ordered_reduce({.op = ops[first.op], .dtype = dtype, .result = dtype}, inputs,
                             sum.data(), static_cast<int64_t>(count));
  if (count > 0) std::memcpy(to, sum.data(), sum.size());
}

}  // namespace

void cusim::nccl::reach(const ItemPtr& mine) {
  if (mine->done || over(*mine)) return;
  Party& party = *mine->comm->party;
  std::vector<ItemPtr> all;
  if (mine->is_message()) {
    const ItemPtr other = other_end(mine);
    const ItemPtr& from = mine->kind == Kind::send ? mine : other;
    const ItemPtr& to = mine->kind == Kind::send ? other : mine;
    cudaEventSynchronize(other->before.get());
    if (mine->done || over(*other)) return;
    if (from->count != to->count) fail("the two ends of a message differ in size");
    std::memcpy(to->to, from->from, bytes_of(*from));
    from->done = to->done = true;
    note("message of " + party.name + " is done");
    return;
  }
  auto& own = party.collectives[static_cast<size_t>(mine->rank)];
  size_t place = 0;
  while (place < own.size() && own[place] != mine) ++place;
  for (const auto& items : party.collectives) {
    if (place >= items.size()) fail("a collective would wait for a rank for ever");
    all.push_back(items[place]);
    if (over(*items[place])) return;
    if (items[place]->kind != mine->kind) fail("ranks ask for different collectives");
    if (items[place]->count != mine->count) fail("ranks ask for collectives of different sizes");
  }
  for (const ItemPtr& item : all) cudaEventSynchronize(item->before.get());
  if (mine->done || over(*mine)) return;
  cusim::nccl::perform(all);
  for (const ItemPtr& item : all) item->done = true;
  note(std::string(kKinds[static_cast<int>(mine->kind)]) + " of " + party.name + " is done");
}

namespace {

// By sender and receiver; under the lock of the world.
std::map<std::pair<int, int>, cusim::NcclSent>& all_sent() {
  static auto* const sent = new std::map<std::pair<int, int>, cusim::NcclSent>;
  return *sent;
}

// The group's calls are one piece of work: none of them waits for another.
void ask(std::vector<ItemPtr> items) {
  if (items.empty()) return;
  if (!cusim::is_deferred()) fail("streams must be deferred (cusim::set_deferred)");
  const std::lock_guard lock(cusim::world());
  for (const ItemPtr& item : items) {
    if (item->kind != Kind::send) continue;
    cusim::NcclSent& sent = all_sent()[{item->rank, item->peer}];
    ++sent.messages;
    sent.bytes += static_cast<int64_t>(cusim::nccl::bytes_of(*item));
  }
  if (const auto& files = items.front()->comm->files) return files->ask(items);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, items.front()->stream);
  const std::shared_ptr<cusim_event> before(event, [](cudaEvent_t e) { cudaEventDestroy(e); });
  for (const ItemPtr& item : items) {
    if (item->stream != items.front()->stream) fail("a group on two streams");
    cusim::nccl::note("rank " + std::to_string(item->rank) + " asks for " +
                      cusim::nccl::kKinds[static_cast<int>(item->kind)]);
    item->before = before;
    Party& party = *item->comm->party;
    if (item->kind == Kind::send) {
      party.sends[{item->rank, item->peer}].push_back(item);
    } else if (item->kind == Kind::recv) {
      party.recvs[{item->peer, item->rank}].push_back(item);
    } else {
      party.collectives[static_cast<size_t>(item->rank)].push_back(item);
    }
  }
  cusim::enqueue_when(
      "nccl", items.front()->stream,
      [items] {
        return std::none_of(items.begin(), items.end(), cusim::nccl::is_held) &&
               std::all_of(items.begin(), items.end(), can_begin);
      },
      [items] {
        for (const ItemPtr& item : items) cusim::nccl::reach(item);
      },
      true);
}

ncclResult_t add(const char* function, Item item, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t told = broken(function, comm, comm->rank);
  if (told != ncclSuccess) return told;
  item.comm = comm;
  item.rank = comm->rank;
  item.stream = stream;
  grouped.push_back(std::make_shared<Item>(std::move(item)));
  if (depth == 0) ask(std::exchange(grouped, {}));
  return ncclSuccess;
}

}  // namespace

cusim::NcclSent cusim::nccl_sent(int from, int to) {
  const std::lock_guard lock(world());
  return all_sent()[{from, to}];
}

void cusim::nccl::fail(const std::string& what) {
  std::fprintf(stderr, "cusim: nccl: %s\n", what.c_str());
  std::abort();
}

size_t cusim::nccl::bytes_of(const Item& item) {
  return item.count * static_cast<size_t>(hero::item_size(dtype_of(item.type)));
}

void cusim::nccl::perform(const std::vector<ItemPtr>& all, int only) {
  const Item& first = *all.front();
  std::vector<std::pair<void*, std::vector<char>>> writes;  // parts may lie in each other's memory
  const auto copy = [&](const void* from, void* to, size_t bytes) {
    const auto* const begin = static_cast<const char*>(from);
    writes.emplace_back(to, std::vector<char>(begin, begin + bytes));
  };
  const size_t item = first.count == 0 ? 0 : bytes_of(first) / first.count;
  const auto summed = [&](const Item& at, size_t skip) {
    std::vector<char> sum(at.count * item);
    reduce(all, skip, sum.data(), at.count);
    writes.emplace_back(at.to, std::move(sum));
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const Item& at = *all[i];
    if (only >= 0 && only != static_cast<int>(i)) continue;
    const bool root = static_cast<int>(i) == at.peer;
    if (at.kind == Kind::all_reduce || (at.kind == Kind::reduce && root)) summed(at, 0);
    if (at.kind == Kind::reduce_scatter) summed(at, i * at.count);
    if (at.kind == Kind::broadcast) {
      copy(all[static_cast<size_t>(at.peer)]->from, at.to, bytes_of(at));
    }
    if (at.kind != Kind::all_gather) continue;
    for (size_t j = 0; j < all.size(); ++j) {
      copy(all[j]->from, static_cast<char*>(at.to) + j * bytes_of(at), bytes_of(at));
    }
  }
  for (const auto& [to, bytes] : writes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  std::vector<ItemPtr> items = std::exchange(grouped, {});
  const ncclComm_t comm = items.empty() ? nullptr : items.front()->comm;
  if (comm && !cusim::nccl::connect(comm)) return ncclInternalError;
  ask(std::move(items));
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  Item item{Kind::all_reduce, nullptr, 0, -1, from, to, count, type, op, nullptr, nullptr};
  return add("AllReduce", item, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  Item item{Kind::reduce, nullptr, 0, root, from, to, count, type, op, nullptr, nullptr};
  return add("Reduce", item, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  Item item{Kind::reduce_scatter, nullptr, 0, -1, from, to, count, type, op, nullptr, nullptr};
  return add("ReduceScatter", item, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  Item item{Kind::all_gather, nullptr, 0, -1, from, to, count, type, ncclSum, nullptr, nullptr};
  return add("AllGather", item, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  Item item{Kind::broadcast, nullptr, 0, root, from, to, count, type, ncclSum, nullptr, nullptr};
  return add("Broadcast", item, comm, stream);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  Item item{Kind::send, nullptr, 0, peer, from, nullptr, count, type, ncclSum, nullptr, nullptr};
  return add("Send", item, comm, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Item item{Kind::recv, nullptr, 0, peer, nullptr, to, count, type, ncclSum, nullptr, nullptr};
  return add("Recv", item, comm, stream);
}
