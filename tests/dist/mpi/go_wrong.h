#pragma once
// Ranks that fail in every way in which a process can.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <unistd.h>

#include <hero/core/array.h>
#include <hero/dist/communicator.h>

namespace hero::test {

[[noreturn]] inline void forever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

// In one write: pieces would mix with the other processes'.
inline void say_of_rank(const dist::Communicator& world, const std::string& what) {
  std::fputs(("[rank " + std::to_string(world.rank()) + " " + what + "]\n").c_str(), stderr);
}

// Sums, one after the other, in which rank 1 dies, or after some of which it throws.
inline void sum_until(dist::Communicator& world, const std::string& how) {
  const Array x = Array::ones({int64_t{1} << 22});
  const bool wrong = world.rank() == 1;
  if (wrong && how == "die_midway") {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      ::raise(SIGKILL);
    }).detach();
  }
  for (int i = 0;; ++i) {
    if (wrong && how == "throw_midway" && i == 7) fail("loader: no such file: 'train.bin'");
    world.all_reduce(x, {.op = dist::ReduceOp::mean, .unit = "fc1"});
  }
}

// What rank 1 does while the others wait for it, on the ranks' GPUs where they have some.
inline void go_wrong(dist::Communicator& world, const std::string& how) {
  if (how.ends_with("_midway")) return sum_until(world, how);
  const Array x = Array::ones({10}, kFloat32, world.device());
  world.all_reduce(x);
  if (world.rank() == 1) {
    if (how == "throw") fail("loader: no such file: 'train.bin'");
    if (how == "throw7") throw 7;
    if (how == "exit") std::exit(0);  // NOLINT
    if (how == "leave") ::_exit(0);
    if (how == "kill") {  // when the others wait: the launcher stops them
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      ::raise(SIGKILL);
    }
    if (how == "hang") forever();
  }
  if (how == "endless" && world.rank() == 0) fail("loader: no such file: 'train.bin'");
  if (how == "endless" && world.rank() == 1) forever();
  const bool native = how == "stopped";  // see library_groups.h
  try {
    world.all_reduce(x, {.order = native ? dist::Order::native : dist::Order::tree, .unit = "fc1"});
    x.to(kCpu);  // on a GPU the host hears of the others when it reads
  } catch (const Error& error) {
    say_of_rank(world, std::string("threw: ") + error.what());
    throw;
  }
}

}  // namespace hero::test
