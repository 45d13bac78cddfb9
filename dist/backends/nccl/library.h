#pragma once
// The functions of NCCL that the backend calls. The library is loaded when the first communicator
// is made: programs that make none need no NCCL.
#include <string>

#include <nccl.h>

namespace hero::dist::nccl {

/// One pointer a function, each with the type that nccl.h gives it.
struct Library {
  decltype(&::ncclGetVersion) GetVersion = nullptr;
  decltype(&::ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&::ncclGetErrorString) GetErrorString = nullptr;
  decltype(&::ncclGetLastError) GetLastError = nullptr;
  decltype(&::ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&::ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&::ncclCommFinalize) CommFinalize = nullptr;
  decltype(&::ncclCommDestroy) CommDestroy = nullptr;
  decltype(&::ncclCommAbort) CommAbort = nullptr;
  decltype(&::ncclGroupStart) GroupStart = nullptr;
  decltype(&::ncclGroupEnd) GroupEnd = nullptr;
  decltype(&::ncclAllReduce) AllReduce = nullptr;
  decltype(&::ncclReduce) Reduce = nullptr;
  decltype(&::ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&::ncclAllGather) AllGather = nullptr;
  decltype(&::ncclBroadcast) Broadcast = nullptr;
  decltype(&::ncclSend) Send = nullptr;
  decltype(&::ncclRecv) Recv = nullptr;
  /// Null where the library has none (NCCL before 2.18); `no_split` says so. Its type is spelled
  /// out for headers that have none either.
  ncclResult_t (*CommSplit)(ncclComm_t parent, int color, int key, ncclComm_t* made,
                            ncclConfig_t* config) = nullptr;
  std::string no_split = {};
  int version = 0;  ///< 22809 is 2.28.9
};

/// "2.28.9"
std::string text_of_version(int version);

/// Loads a library of this file name; an Error where it is not found, lacks a function, or is older
/// than 2.14, the first whose communicators are finalized.
Library load_library(const std::string& name);

/// The library that HERO_NCCL names in the environment, or libnccl.so.2; loaded once.
const Library& library();

}  // namespace hero::dist::nccl
