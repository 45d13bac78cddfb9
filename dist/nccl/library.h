#pragma once
// The functions of NCCL that the engine calls. The library is loaded when the first communicator is
// made: programs that make none need no NCCL.
#include <string>

#include <nccl.h>

namespace hero::dist::nccl {

/// One pointer a function, each with the type that nccl.h gives it.
struct Library {
#define HERO_NCCL_FUNCTIONS(with) \
  with(GetVersion);               \
  with(GetUniqueId);              \
  with(GetErrorString);           \
  with(GetLastError);             \
  with(CommInitRankConfig);       \
  with(CommGetAsyncError);        \
  with(CommDestroy);              \
  with(CommAbort);                \
  with(GroupStart);               \
  with(GroupEnd);                 \
  with(AllReduce);                \
  with(Reduce);                   \
  with(ReduceScatter);            \
  with(AllGather);                \
  with(Broadcast);                \
  with(Send);                     \
  with(Recv)
#define HERO_NCCL_MEMBER(name) decltype(&::nccl##name) name = nullptr
  HERO_NCCL_FUNCTIONS(HERO_NCCL_MEMBER);
#undef HERO_NCCL_MEMBER
};

/// Loads a library of this file name; an Error where it is not found, lacks a function, or is older
/// than 2.14, the first with communicators that do not block.
Library load_library(const std::string& name);

/// The library that HERO_NCCL names in the environment, or libnccl.so.2; loaded once.
const Library& library();

}  // namespace hero::dist::nccl
