#pragma once
// A call of tests/cusim's NCCL: its parts, and what they do to memory.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "streams.h"
#include <nccl.h>

namespace cusim::nccl {

class Files;

enum class Kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };
inline constexpr const char* kKinds[] = {
    "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "send", "recv"};

/// One rank's part in a call.
struct Item {
  Kind kind = Kind::send;
  ncclComm_t comm = nullptr;
  int rank = 0, peer = -1;  // peer: root, or the other end
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  cudaStream_t stream = nullptr;
  std::shared_ptr<cusim_event> before;  // the stream has come to this part
  bool done = false;
  uint64_t number = 0;  // between processes: of the calls of its ranks

  bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
};
using ItemPtr = std::shared_ptr<Item>;

/// A communicator of threads, as all its ranks see it.
struct Party {
  std::string name;
  int size = 0, joined = 0, connected = 0;
  std::vector<int> devices;                      // of the ranks that have ended
  std::vector<std::deque<ItemPtr>> collectives;  // [rank]: in the order asked for
  std::map<std::pair<int, int>, std::deque<ItemPtr>> sends, recvs;
  std::vector<std::vector<std::pair<int, int>>> splits;  // [number]: color and key by rank
};

/// Of `count` elements.
size_t bytes_of(const Item& item);
/// Does a collective, whose parts these are in the order of ranks; with a rank, of that one only.
void perform(const std::vector<ItemPtr>& all, int only = -1);
/// A stream has come to this part.
void reach(const ItemPtr& mine);
/// Ends the program, with a line.
[[noreturn]] void fail(const std::string& what);

/// Under the lock of the world: whether a test holds this call back (cusim::hold_nccl).
bool is_held(const ItemPtr& item);
/// Whether a test has the host wait (cusim::wait_patiently).
bool is_patient();
/// A line for cusim::take_nccl_log().
void note(const std::string& line);
/// The result that a test wants of this function's call by that rank. `comm` may be null.
ncclResult_t broken(const char* function, ncclComm_t comm, int rank);
/// Before a communicator's first group of calls; false where it was aborted meanwhile.
bool connect(ncclComm_t comm);

}  // namespace cusim::nccl

struct ncclComm {
  std::shared_ptr<cusim::nccl::Party> party;
  std::shared_ptr<cusim::nccl::Files> files;  // between processes; else null
  int rank = 0, size = 0, splits = 0, device = 0;
  bool aborted = false, finalized = false, connected = false;
  std::string last;
  ncclResult_t failed = ncclSuccess;
};
