#pragma once
// A call of tests/cusim's NCCL: its parts, and what they do to memory.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "streams.h"
#include <nccl.h>

namespace cusim::nccl {

enum class Kind { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };

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

/// Of `count` elements.
size_t bytes_of(const Item& item);
/// Does a collective, whose parts these are in the order of ranks; with a rank, of that one only.
void perform(const std::vector<ItemPtr>& all, int only = -1);
/// Ends the program, with a line.
[[noreturn]] void fail(const std::string& what);

}  // namespace cusim::nccl
