// Communicators: how they are made, split and ended, and what tests tell them to do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_calls.h"
#include "nccl_files.h"
#include <unistd.h>

namespace {

using cusim::nccl::broken;
using cusim::nccl::fail;
using cusim::nccl::Files;
using cusim::nccl::ItemPtr;
using cusim::nccl::note;
using cusim::nccl::Party;

// Under the lock of the world. Never destroyed: ranks that come late live longer than the tests.
auto& parties = *new std::map<std::string, std::shared_ptr<Party>>;
auto& breaks = *new std::map<std::pair<std::string, int>, ncclResult_t>;
auto& held = *new std::set<std::pair<std::string, int>>;  // kind, and rank or -1 for all
auto& lines = *new std::vector<std::string>;
int open_count = 0, aborted_count = 0, next_id = 0;
bool connecting = false, patient = false;

// Waits, as the host does in a call that blocks; false when `comm` was aborted. Null: it never is.
template <class Ready>
bool block(ncclComm_t comm, const Ready& ready) {
  std::unique_lock lock(cusim::world());
  while (!ready()) {
    if (comm != nullptr && comm->aborted) return false;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
  return true;
}

// Of threads, where nothing goes on by itself.
void wait_for_others(std::chrono::steady_clock::time_point) {
  if (!patient && !cusim::shares_queues())
    fail("a call would wait for ever, for its other ranks or a test that holds it back");
  cusim::world().pause(std::chrono::microseconds(50));
}

// A rank's end of the communicator of this name, which is there when all ranks have theirs.
ncclResult_t join(const std::string& name, int rank, int size, ncclComm_t parent,
                  ncclComm_t* comm) {
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->size = size;
  cudaGetDevice(&made->device);
  if (Files::folder()) {
    made->files = std::make_shared<Files>(name, rank, size);
  } else {
    const std::lock_guard lock(cusim::world());
    cusim::set_idle(&wait_for_others);
    auto& party = parties[name];
    if (!party) party = std::make_shared<Party>();
    made->party = party;
    party->name = name;
    party->size = size;
    party->collectives.resize(static_cast<size_t>(size));
    ++party->joined;
  }
  const bool all_here = block(
      parent, [&] { return made->files ? made->files->joined() : made->party->joined >= size; });
  if (!all_here) return ncclInternalError;
  const std::lock_guard lock(cusim::world());
  if (cusim::allocates_late()) cusim::drain_device(made->device);
  ++open_count;
  // For ever: other ranks' streams may still look at one that is destroyed.
  static auto& all = *new std::vector<std::unique_ptr<ncclComm>>;
  *comm = all.emplace_back(std::move(made)).get();
  return ncclSuccess;
}

// What the ranks of a process share is freed, on the devices of all, when the last one ends.
void end_in_party(ncclComm_t comm) {
  if (!comm->party) return;
  std::vector<int>& devices = comm->party->devices;
  devices.push_back(comm->device);
  if (comm->aborted || static_cast<int>(devices.size()) < comm->size) return;
  for (const int device : devices) cusim::drain_device(device);
}

void check_config(const ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 1) fail("a communicator that does not block");
}

}  // namespace

bool cusim::nccl::is_held(const ItemPtr& item) {
  const std::string kind = kKinds[static_cast<int>(item->kind)];
  return !item->comm->aborted && (held.count({kind, -1}) > 0 || held.count({kind, item->rank}) > 0);
}

bool cusim::nccl::is_patient() { return patient; }

void cusim::nccl::note(const std::string& line) {
  const std::lock_guard lock(world());
  lines.push_back(line);
}

ncclResult_t cusim::nccl::broken(const char* function, ncclComm_t comm, int rank) {
  const std::lock_guard lock(world());
  const auto found = breaks.find({function, rank});
  if (found == breaks.end()) return ncclSuccess;
  const ncclResult_t result = found->second;
  breaks.erase(found);
  if (comm) {
    comm->last = std::string("told to fail in ") + function;
    comm->failed = result;
  }
  return result;
}

bool cusim::nccl::connect(ncclComm_t comm) {
  if (broken("Hang", nullptr, comm->rank) != ncclSuccess) return block(comm, [] { return false; });
  {
    const std::lock_guard lock(world());
    if (!connecting || comm->connected || !comm->party) return true;
    comm->connected = true;
    ++comm->party->connected;
  }
  return block(comm, [&] { return comm->party->connected == comm->party->size; });
}

void cusim::break_nccl(const char* function, int rank, ncclResult_t result) {
  const std::lock_guard lock(world());
  breaks[{function, rank}] = result;
}
void cusim::hold_nccl(const std::string& kind, bool hold, int rank) {
  const std::lock_guard lock(world());
  if (hold) held.insert({kind, rank});
  if (!hold) held.erase({kind, rank});
}
void cusim::wait_patiently(bool wait) {
  const std::lock_guard lock(world());
  patient = wait;
}
void cusim::connect_nccl_late(bool late) {
  const std::lock_guard lock(world());
  connecting = late;
}
std::vector<std::string> cusim::take_nccl_log() {
  const std::lock_guard lock(world());
  return std::exchange(lines, {});
}
int cusim::open_communicators() {
  const std::lock_guard lock(world());
  return open_count;
}
int cusim::aborted_communicators() {
  const std::lock_guard lock(world());
  return aborted_count;
}

ncclResult_t ncclGetVersion(int* version) {
  const char* const text = std::getenv("HERO_CUSIM_NCCL_VERSION");
  *version = text != nullptr ? std::atoi(text) : 23002;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const ncclResult_t told = broken("GetUniqueId", nullptr, 0);
  if (told != ncclSuccess) return told;
  const std::lock_guard lock(cusim::world());
  std::snprintf(id->internal, sizeof(id->internal), "cusim-%d-%d", ::getpid(), ++next_id);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* names[] = {
      "no error",         "unhandled cuda error", "system error",         "internal error",
      "invalid argument", "invalid usage",        "remote process error", "in progress"};
  return names[result];
}
const char* ncclGetLastError(ncclComm_t comm) { return comm ? comm->last.c_str() : ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  check_config(config);
  const ncclResult_t told = broken("CommInitRankConfig", nullptr, rank);
  if (told != ncclSuccess) return told;
  const std::string name = id.internal;
  if (!Files::folder() && name.rfind("cusim-" + std::to_string(::getpid()) + "-", 0) != 0) {
    fail("ranks that are processes need a folder for their messages, in HERO_CUSIM_NCCL");
  }
  block(nullptr, [rank] {
    return held.count({"CommInitRankConfig", -1}) == 0 &&
           held.count({"CommInitRankConfig", rank}) == 0;
  });
  note("CommInitRankConfig: rank " + std::to_string(rank) + " of " + std::to_string(size));
  return join(name, rank, size, nullptr, comm);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                           ncclConfig_t* config) {
  check_config(config);
  const ncclResult_t told = broken("CommSplit", parent, parent->rank);
  if (told != ncclSuccess) return told;
  block(parent, [parent] { return held.count({"CommSplit", parent->rank}) == 0; });
  note("CommSplit: rank " + std::to_string(parent->rank) + " of " + std::to_string(parent->size) +
       ", color " + std::to_string(color) + ", key " + std::to_string(key));
  constexpr std::pair kAbsent(-2, 0);
  const auto number = static_cast<size_t>(parent->splits++);
  std::vector<std::pair<int, int>> all(static_cast<size_t>(parent->size), kAbsent);
  std::string name = "-" + std::to_string(number) + "." + std::to_string(color);
  if (parent->files) {
    name = parent->files->id() + name;
    parent->files->tell(number, {color, key});
    if (!block(parent, [&] { return parent->files->told(number, all); })) return ncclInternalError;
  } else {
    name = parent->party->name + name;
    const auto told_by_all = [&] {
      const auto& said = parent->party->splits[number];
      return std::count(said.begin(), said.end(), kAbsent) == 0;
    };
    {
      const std::lock_guard lock(cusim::world());
      auto& splits = parent->party->splits;
      if (splits.size() <= number) splits.resize(number + 1, all);
      splits[number][static_cast<size_t>(parent->rank)] = {color, key};
      for (const ItemPtr& item : parent->party->collectives[static_cast<size_t>(parent->rank)]) {
        if (!item->done) fail("a communicator is split that has calls under way");
      }
    }
    if (!block(parent, told_by_all)) return ncclInternalError;
    const std::lock_guard lock(cusim::world());
    all = parent->party->splits[number];
  }
  *comm = nullptr;
  if (color < 0) return ncclSuccess;
  int rank = 0, size = 0;
  for (int i = 0; i < parent->size; ++i) {
    const auto [other, its_key] = all[static_cast<size_t>(i)];
    if (other != color) continue;
    ++size;
    if (std::pair(its_key, i) < std::pair(key, parent->rank)) ++rank;
  }
  return join(name, rank, size, parent, comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(cusim::world());
  const ncclResult_t told = broken("Async", comm, comm->rank);
  *state = told != ncclSuccess ? told : comm->failed;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (broken("CommFinalize", nullptr, comm->rank) != ncclSuccess) {
    block(comm, [] { return false; });  // what it waits for never comes
    return ncclInternalError;
  }
  const std::lock_guard lock(cusim::world());
  if (comm->finalized) fail("a communicator is finalized twice");
  comm->finalized = true;
  if (comm->files) comm->files->finish();
  for (size_t i = 0; comm->party && i < comm->party->collectives.size(); ++i) {
    for (const ItemPtr& item : comm->party->collectives[i]) {
      if (item->comm == comm && !item->done) cusim::nccl::reach(item);
    }
  }
  note("CommFinalize: rank " + std::to_string(comm->rank) + " of " + std::to_string(comm->size));
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(cusim::world());
  if (!comm->finalized) fail("a communicator is destroyed that was not finalized");
  --open_count;
  note("CommDestroy: rank " + std::to_string(comm->rank) + " of " + std::to_string(comm->size));
  cusim::drain_device(comm->device);  // gives memory back
  end_in_party(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(cusim::world());
  if (comm->aborted) fail("a communicator is aborted twice");
  comm->aborted = true;
  if (comm->files) comm->files->abort();
  --open_count;
  ++aborted_count;
  if (patient) cusim::drain_device(comm->device);  // gives memory back
  end_in_party(comm);
  return ncclSuccess;
}
