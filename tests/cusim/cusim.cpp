// Blocks of threads on the CPU: a fibre runs the threads of a block one after the other as long as
// they wait for nothing; one that waits keeps its fibre, and another goes on with the next thread.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "fibre.h"
#include "streams.h"

namespace cusim {

namespace {

constexpr int kLanes = 32;

enum class State : uint8_t { fresh, ready, at_barrier, in_warp, done };

struct Copy {
  void* to;
  const void* from;
  int bytes;
};

struct Thread {
  State state = State::done;
  Fibre* fibre = nullptr;  // of one that waits
  dim3 index;
  std::vector<Copy> begun;               // copies not yet in a group
  std::deque<std::vector<Copy>> groups;  // not yet waited for
};

// An operation of a warp: values are written to the slots of this generation and read until the
// next one is complete, so two sets suffice.
struct Warp {
  uint64_t values[2][kLanes] = {};
  unsigned generation = 0;
  unsigned mask = 0, arrived = 0;
};

struct Machine {
  const char* op = "";
  Place place;
  const std::function<void()>* thread = nullptr;
  Side scheduler;
  std::vector<std::unique_ptr<Fibre>> fibres;  // kept from launch to launch
  std::vector<Fibre*> idle;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint64_t> shared;
  Fibre* fibre = nullptr;  // that runs
  int running = -1;        // thread
  int begun = 0;           // threads of this block
};

thread_local Machine machine;

[[noreturn]] void end(const char* what) {
  const Place& at = machine.place;
  std::fprintf(stderr, "cusim: %s: %s; block (%u, %u, %u), thread (%u, %u, %u)\n", machine.op, what,
               at.block_index.x, at.block_index.y, at.block_index.z, at.thread_index.x,
               at.thread_index.y, at.thread_index.z);
  std::abort();
}

// The thread that is taken up as number k. Every second block runs its threads from the last to the
// first: who relies on an order shows.
int in_order(int k) {
  const int threads = static_cast<int>(machine.threads.size());
  return (machine.place.block_index.x & 1u) != 0 ? threads - 1 - k : k;
}

void run_thread(int at) {
  Machine& m = machine;
  m.running = at;
  m.place.thread_index = m.threads[static_cast<size_t>(at)].index;
  (*m.thread)();
  m.threads[static_cast<size_t>(m.running)].state = State::done;
}

// What every fibre does: begin threads while there are any, then be idle until it is wanted again.
void run_fibre() {
  for (;;) {
    Machine& m = machine;
    while (m.begun < static_cast<int>(m.threads.size())) run_thread(in_order(m.begun++));
    m.idle.push_back(m.fibre);
    switch_to(m.fibre->side, m.scheduler);
  }
}

// The running thread waits in `state` until the scheduler takes it up again.
void pause(State state) {
  Machine& m = machine;
  Thread& self = m.threads[static_cast<size_t>(m.running)];
  self.state = state;
  self.fibre = m.fibre;
  switch_to(m.fibre->side, m.scheduler);
}

void begin_threads() {
  Machine& m = machine;
  if (m.idle.empty()) {
    m.fibres.push_back(std::make_unique<Fibre>(run_fibre, m.scheduler));
    m.idle.push_back(m.fibres.back().get());
  }
  m.fibre = m.idle.back();
  m.idle.pop_back();
  switch_to(m.scheduler, m.fibre->side);
}

void resume(int at) {
  Machine& m = machine;
  Thread& thread = m.threads[static_cast<size_t>(at)];
  m.running = at;
  m.place.thread_index = thread.index;
  m.fibre = thread.fibre;
  switch_to(m.scheduler, m.fibre->side);
}

void run_block() {
  Machine& m = machine;
  const int threads = static_cast<int>(m.threads.size());
  for (Warp& warp : m.warps) warp = {};
  for (Thread& thread : m.threads) {
    thread.state = State::fresh;
    thread.begun.clear();
    thread.groups.clear();
  }
  m.begun = 0;
  while (m.begun < threads) begin_threads();
  for (;;) {
    bool ran = false;
    for (int k = 0; k < threads; ++k) {
      const int i = in_order(k);
      if (m.threads[static_cast<size_t>(i)].state != State::ready) continue;
      ran = true;
      resume(i);
    }
    if (ran) continue;
    int waiting = 0, alive = 0;
    for (const Thread& thread : m.threads) {
      alive += thread.state != State::done;
      waiting += thread.state == State::at_barrier;
    }
    if (alive == 0) return;
    if (waiting < alive) end("lanes wait for others of their warp, which never come");
    for (Thread& thread : m.threads) {
      if (thread.state == State::at_barrier) thread.state = State::ready;
    }
  }
}

// One operation of the running thread's warp; returns the slots that hold all lanes' values.
const uint64_t* meet(unsigned mask, uint64_t value) {
  Machine& m = machine;
  const int warp_at = m.running / kLanes, lane_at = m.running % kLanes;
  Warp& warp = m.warps[static_cast<size_t>(warp_at)];
  const unsigned bit = 1u << lane_at;
  if ((mask & bit) == 0) end("a lane is not in the mask it gave");
  if (warp.arrived == 0) warp.mask = mask;
  if (warp.mask != mask) end("lanes of a warp came with different masks");
  const unsigned generation = warp.generation;
  warp.values[generation & 1u][lane_at] = value;
  warp.arrived |= bit;
  const int threads =
      static_cast<int>(m.place.block.x * m.place.block.y * m.place.block.z) - warp_at * kLanes;
  const unsigned there = threads >= kLanes ? ~0u : (1u << threads) - 1u;
  if (warp.arrived == (mask & there)) {
    ++warp.generation;
    warp.arrived = 0;
    for (int lane = 0; lane < kLanes && lane < threads; ++lane) {
      Thread& other = m.threads[static_cast<size_t>(warp_at * kLanes + lane)];
      if ((mask >> lane & 1u) && other.state == State::in_warp) other.state = State::ready;
    }
  } else {
    while (warp.generation == generation) pause(State::in_warp);
  }
  return warp.values[generation & 1u];
}

}  // namespace

const Place& place() { return machine.place; }
void* dynamic_shared() { return machine.shared.data(); }
int lane() { return machine.running % kLanes; }
void sync_threads() { pause(State::at_barrier); }

uint64_t exchange(unsigned mask, uint64_t value, int from) {
  const uint64_t* values = meet(mask, value);
  if (from < 0 || from >= kLanes || (mask >> from & 1u) == 0) {
    end("a lane asks one outside of the mask");
  }
  return values[from];
}

const uint64_t* gather(unsigned mask, uint64_t value) { return meet(mask, value); }

void copy_async(void* to, const void* from, int bytes) {
  const auto at = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (at % static_cast<uintptr_t>(bytes) != 0) end("an asynchronous copy is not aligned");
  machine.threads[static_cast<size_t>(machine.running)].begun.push_back({to, from, bytes});
}
void commit_copies() {
  Thread& self = machine.threads[static_cast<size_t>(machine.running)];
  self.groups.push_back(std::move(self.begun));
  self.begun.clear();
}
void wait_copies(int left) {
  auto& groups = machine.threads[static_cast<size_t>(machine.running)].groups;
  for (; groups.size() > static_cast<size_t>(left); groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      const auto size = static_cast<size_t>(copy.bytes);
      if (copy.from != nullptr) {
        std::memcpy(copy.to, copy.from, size);
      } else {
        std::memset(copy.to, 0, size);
      }
    }
  }
}

unsigned ballot(unsigned mask, bool value) {
  const uint64_t* values = meet(mask, value ? 1 : 0);
  unsigned result = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((mask >> i & 1u) && values[i] != 0) result |= 1u << i;
  }
  return result;
}

namespace {

void run_grid(const char* op, dim3 grid, dim3 block, size_t shared,
              const std::function<void()>& thread) {
  Machine& m = machine;
  m.op = op;
  m.thread = &thread;
  m.place.grid = grid;
  m.place.block = block;
  m.threads.resize(size_t{block.x} * block.y * block.z);
  for (unsigned i = 0; i < m.threads.size(); ++i) {
    m.threads[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
  }
  m.warps.resize((m.threads.size() + kLanes - 1) / kLanes);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        m.place.block_index = {x, y, z};
        m.shared.assign((shared + 7) / 8, ~uint64_t{0});  // NaN to whoever reads it unwritten
        run_block();
      }
    }
  }
}

}  // namespace

void launch(const char* op, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            std::function<void()> thread) {
  machine.op = op;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024) end("a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) end("a grid has no blocks");
  if (grid.y > 65535 || grid.z > 65535) end("a grid is at most 65535 blocks high and deep");
  if (shared > 227 * 1024) end("a block has at most 227 KiB of shared memory");
  enqueue(op, stream,
          [=, thread = std::move(thread)] { run_grid(op, grid, block, shared, thread); });
}

}  // namespace cusim
