// Blocks of threads on the CPU: a fibre runs the threads of a block one after the other as long as
// they wait for nothing; one that waits keeps its fibre, and another goes on with the next thread.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "fibre.h"
#include "streams.h"

namespace cusim {

constinit thread_local Place here;

namespace {

constexpr int kLanes = 32;

enum class State : uint8_t { fresh, ready, at_barrier, in_warp, done };

struct Copy {
  void* to;
  const void* from;
  int bytes;
};

struct Thread {
  Fibre* fibre = nullptr;  // of one that waits
  dim3 index;
};

// A thread's copies in the background.
struct Copies {
  std::vector<Copy> begun;               // not yet in a group
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
  const std::function<void()>* thread = nullptr;
  Side scheduler;
  std::vector<std::unique_ptr<Fibre>> fibres;  // kept from launch to launch
  std::vector<Fibre*> idle;
  std::vector<Thread> threads;
  std::vector<State> states;   // of the threads
  std::vector<Copies> copies;  // of the threads; empty where no block had any
  std::vector<Warp> warps;
  std::vector<uint64_t> shared;
  Fibre* fibre = nullptr;  // that runs
  int begun = 0;           // threads of this block
  int turn = 0;            // those that had their turn in this round
  bool ran = false;        // one in this round
  bool copied = false;     // one of this block
  int size() const { return static_cast<int>(threads.size()); }
};

constinit thread_local Machine* machine = nullptr;

// That of this thread of the host, from its first kernel on.
Machine& own_machine() {
  thread_local Machine own;
  machine = &own;
  return own;
}

[[noreturn]] void end(const char* what) {
  const Place& at = here;
  std::fprintf(stderr, "cusim: %s: %s; block (%u, %u, %u), thread (%u, %u, %u)\n", machine->op,
               what, at.block_index.x, at.block_index.y, at.block_index.z, at.thread_index.x,
               at.thread_index.y, at.thread_index.z);
  std::abort();
}

// The thread that is taken up as number k. Every second block runs its threads from the last to the
// first: who relies on an order shows.
int in_order(const Machine& m, int k) {
  return (here.block_index.x & 1u) != 0 ? m.size() - 1 - k : k;
}

void enter_thread(const Machine& m, int at) {
  here.number = at;
  here.thread_index = m.threads[static_cast<size_t>(at)].index;
}

void run_fibre();

// Whose turn it is: a fibre that begins threads while there are any, then the threads that wait for
// nothing, in their order, and at the end of a round the scheduler.
Side& next(Machine& m) {
  const int threads = m.size();
  if (m.begun < threads) {
    if (m.idle.empty()) {
      m.fibres.push_back(std::make_unique<Fibre>(run_fibre, m.scheduler));
      m.idle.push_back(m.fibres.back().get());
    }
    m.fibre = m.idle.back();
    m.idle.pop_back();
    return m.fibre->side;
  }
  while (m.turn < threads) {
    const int at = in_order(m, m.turn++);
    if (m.states[static_cast<size_t>(at)] != State::ready) continue;
    m.ran = true;
    enter_thread(m, at);
    m.fibre = m.threads[static_cast<size_t>(at)].fibre;
    return m.fibre->side;
  }
  return m.scheduler;
}

// What every fibre does: begin threads while there are any, then be idle until it is wanted again.
void run_fibre() {
  for (;;) {
    Machine& m = *machine;
    while (m.begun < m.size()) {
      enter_thread(m, in_order(m, m.begun++));
      (*m.thread)();
      m.states[static_cast<size_t>(here.number)] = State::done;
    }
    Fibre& self = *m.fibre;
    m.idle.push_back(&self);
    switch_to(self.side, next(m));
  }
}

// The running thread waits in `state` until it is taken up again.
void pause(State state) {
  Machine& m = *machine;
  Fibre& self = *m.fibre;
  m.states[static_cast<size_t>(here.number)] = state;
  m.threads[static_cast<size_t>(here.number)].fibre = &self;
  switch_to(self.side, next(m));
}

void run_block(Machine& m) {
  std::fill(m.warps.begin(), m.warps.end(), Warp{});
  std::fill(m.states.begin(), m.states.end(), State::fresh);
  if (std::exchange(m.copied, false)) {
    for (Copies& copies : m.copies) {
      copies.begun.clear();
      copies.groups.clear();
    }
  }
  m.begun = 0;
  for (;;) {
    m.turn = 0;
    m.ran = false;
    Side& first = next(m);
    if (&first != &m.scheduler) switch_to(m.scheduler, first);
    if (m.ran) continue;
    const auto alive = std::count_if(m.states.begin(), m.states.end(),
                                     [](State state) { return state != State::done; });
    if (alive == 0) return;
    const auto waiting = std::count(m.states.begin(), m.states.end(), State::at_barrier);
    if (waiting < alive) end("lanes wait for others of their warp, which never come");
    std::replace(m.states.begin(), m.states.end(), State::at_barrier, State::ready);
  }
}

// One operation of the running thread's warp; returns the slots that hold all lanes' values.
const uint64_t* meet(unsigned mask, uint64_t value) {
  Machine& m = *machine;
  const int warp_at = here.number / kLanes, lane_at = here.number % kLanes;
  Warp& warp = m.warps[static_cast<size_t>(warp_at)];
  const unsigned bit = 1u << lane_at;
  if ((mask & bit) == 0) end("a lane is not in the mask it gave");
  if (warp.arrived == 0) warp.mask = mask;
  if (warp.mask != mask) end("lanes of a warp came with different masks");
  const unsigned generation = warp.generation;
  warp.values[generation & 1u][lane_at] = value;
  warp.arrived |= bit;
  const int threads = m.size() - warp_at * kLanes;
  const unsigned there = threads >= kLanes ? ~0u : (1u << threads) - 1u;
  if (warp.arrived == (mask & there)) {
    ++warp.generation;
    warp.arrived = 0;
    for (int lane = 0; lane < kLanes && lane < threads; ++lane) {
      State& other = m.states[static_cast<size_t>(warp_at * kLanes + lane)];
      if ((mask >> lane & 1u) && other == State::in_warp) other = State::ready;
    }
  } else {
    while (warp.generation == generation) pause(State::in_warp);
  }
  return warp.values[generation & 1u];
}

// The copies of the running thread.
Copies& own_copies() {
  Machine& m = *machine;
  m.copied = true;
  if (m.copies.size() < m.threads.size()) m.copies.resize(m.threads.size());
  return m.copies[static_cast<size_t>(here.number)];
}

}  // namespace

void* dynamic_shared() { return machine->shared.data(); }
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
  own_copies().begun.push_back({to, from, bytes});
}
void commit_copies() {
  Copies& self = own_copies();
  self.groups.push_back(std::move(self.begun));
  self.begun.clear();
}
void wait_copies(int left) {
  auto& groups = own_copies().groups;
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
  Machine& m = own_machine();
  m.op = op;
  m.thread = &thread;
  here.grid = grid;
  here.block = block;
  m.threads.resize(size_t{block.x} * block.y * block.z);
  for (unsigned i = 0; i < m.threads.size(); ++i) {
    m.threads[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
  }
  m.states.resize(m.threads.size());
  m.warps.resize((m.threads.size() + kLanes - 1) / kLanes);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        here.block_index = {x, y, z};
        m.shared.assign((shared + 7) / 8, ~uint64_t{0});  // NaN to whoever reads it unwritten
        run_block(m);
      }
    }
  }
}

}  // namespace

void launch(const char* op, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            std::function<void()> thread) {
  own_machine().op = op;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024) end("a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) end("a grid has no blocks");
  if (grid.y > 65535 || grid.z > 65535) end("a grid is at most 65535 blocks high and deep");
  if (shared > 227 * 1024) end("a block has at most 227 KiB of shared memory");
  enqueue(op, stream,
          [=, thread = std::move(thread)] { run_grid(op, grid, block, shared, thread); });
}

}  // namespace cusim
