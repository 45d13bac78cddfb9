#pragma once
// What a process sends through MPI, and to how many others: the connections that it needs.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "dist/backends/collective_checks.h"
#include <dlfcn.h>

#include <hero/core/array.h>
#include <hero/dist/communicator.h>

namespace hero::test {

inline std::array<std::atomic<int>, 1024> messages_to;  // by rank
// Of at least 4 KiB: the ranks' arrays.
inline std::array<std::atomic<int>, 1024> large_messages_to;
inline std::array<std::atomic<int64_t>, 1024> large_bytes_to;

}  // namespace hero::test

/// Stands before the library's own, and counts. Every argument fits a register or a word of the
/// stack, whichever MPI it is.
extern "C" inline __attribute__((used)) int MPI_Isend(const void* data, int count, long type,
                                                      int to, int tag, long comm, void* request) {
  const size_t rank = static_cast<size_t>(to) % 1024;
  if (to >= 0) ++hero::test::messages_to[rank];
  if (to >= 0 && count >= 4096) {
    ++hero::test::large_messages_to[rank];
    hero::test::large_bytes_to[rank] += count;
  }
  using Send = int (*)(const void*, int, long, int, int, long, void*);
  static const auto send = reinterpret_cast<Send>(::dlsym(RTLD_NEXT, "MPI_Isend"));
  return send(data, count, type, to, tag, comm, request);
}

namespace hero::test {

/// Files that are sockets and that this process has open.
inline int open_sockets() {
  int sockets = 0;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    sockets += std::filesystem::read_symlink(file.path(), none).string().starts_with("socket:");
  }
  return sockets;
}

/// "[rank 3: 5 peers, 9 sockets, 101 messages to rank 0]", of the process until now.
inline void say_messages(int rank) {
  int peers = 0;
  for (const std::atomic<int>& messages : messages_to) peers += messages.load() > 0;
  const std::string line = "[rank " + std::to_string(rank) + ": " + std::to_string(peers) +
                           " peers, " + std::to_string(open_sockets()) + " sockets, " +
                           std::to_string(messages_to[0].load()) + " messages to rank 0]\n";
  std::fputs(line.c_str(), stdout);
}

/// As many sums of one number as HERO_CALLS says. The last rank comes HERO_LATE milliseconds late
/// to each.
inline void sum_often(dist::Communicator& world) {
  const auto number = [](const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? 0 : std::atoi(text);
  };
  const Array x = Array::ones({1});
  for (int i = 0; i < number("HERO_CALLS"); ++i) {
    if (world.rank() == world.size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(number("HERO_LATE")));
    }
    const Array sum = x.clone();
    world.all_reduce(sum);
    expect(same(sum, Array::full({1}, world.size())), "the number of ranks");
  }
}

}  // namespace hero::test
