#include <cstdlib>

#include <dlfcn.h>

#include <hero/core/error.h>
#include <hero/dist/backends/nccl/library.h>

// the members of Library
#define HERO_NCCL_FUNCTIONS(with) \
  with(GetVersion);               \
  with(GetUniqueId);              \
  with(GetErrorString);           \
  with(GetLastError);             \
  with(CommInitRankConfig);       \
  with(CommGetAsyncError);        \
  with(CommFinalize);             \
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

namespace hero::dist::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr int kOldest = 21400;
constexpr int kSplits = 21800;

#if defined(HERO_CUSIM)
// Tests without a GPU: the library of this name is tests/cusim/nccl.cpp.
Library linked_library() {
  Library table;
#define HERO_NCCL_TAKE(name) table.name = &::nccl##name
  HERO_NCCL_FUNCTIONS(HERO_NCCL_TAKE);
  HERO_NCCL_TAKE(CommSplit);
#undef HERO_NCCL_TAKE
  return table;
}
#endif

Library opened_library(const std::string& name) {
  // never closed: its threads live as long as the process
  void* const file = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const said = file == nullptr ? ::dlerror() : nullptr;
  check(file != nullptr, "nccl: cannot load the library '", name, "' (",
        said != nullptr ? said : "no reason given",
        "); install NCCL 2.14 or newer, or name its file in HERO_NCCL");
  Library table;
#define HERO_NCCL_FIND(function)                                                                \
  table.function = reinterpret_cast<decltype(table.function)>(::dlsym(file, "nccl" #function)); \
  check(table.function != nullptr, "nccl: the library '", name, "' has no nccl" #function,      \
        "; install NCCL 2.14 or newer")
  HERO_NCCL_FUNCTIONS(HERO_NCCL_FIND);
#undef HERO_NCCL_FIND
  table.CommSplit = reinterpret_cast<decltype(table.CommSplit)>(::dlsym(file, "ncclCommSplit"));
  return table;
}

}  // namespace

std::string text_of_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Library load_library(const std::string& name) {
#if defined(HERO_CUSIM)
  Library table = name == kName ? linked_library() : opened_library(name);
#else
  Library table = opened_library(name);
#endif
  int version = 0;
  const ncclResult_t status = table.GetVersion(&version);
  check(status == ncclSuccess && version >= kOldest, "nccl: the library '", name,
        "' is of version ", text_of_version(version), "; install NCCL 2.14 or newer");
  table.version = version;
  if (version < kSplits) table.CommSplit = nullptr;
  if (table.CommSplit == nullptr) {
    table.no_split = "NCCL " + text_of_version(version) + " has no ncclCommSplit";
  }
  return table;
}

const Library& library() {
  static const Library loaded = [] {
    const char* const named = std::getenv("HERO_NCCL");
    return load_library(named != nullptr && *named != '\0' ? named : kName);
  }();
  return loaded;
}

}  // namespace hero::dist::nccl
