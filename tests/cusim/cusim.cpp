// Blocks of threads on the CPU: each thread of a block is a fibre with a stack of its own, and the
// host thread that launched runs them in turns.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <cuda_runtime.h>
#include <ucontext.h>

namespace cusim {

namespace {

constexpr int kLanes = 32;
constexpr size_t kStack = 64 * 1024;

enum class State : uint8_t { ready, at_barrier, in_warp, done };

struct Fibre {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  State state = State::done;
  dim3 index;
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
  ucontext_t scheduler;
  std::vector<std::unique_ptr<Fibre>> fibres;  // kept from launch to launch
  std::vector<Warp> warps;
  std::vector<uint64_t> shared;
  int running = -1;
};

thread_local Machine machine;

[[noreturn]] void end(const char* what) {
  const Place& at = machine.place;
  std::fprintf(stderr, "cusim: %s: %s; block (%u, %u, %u), thread (%u, %u, %u)\n", machine.op, what,
               at.block_index.x, at.block_index.y, at.block_index.z, at.thread_index.x,
               at.thread_index.y, at.thread_index.z);
  std::abort();
}

void run_fibre() {
  (*machine.thread)();
  machine.fibres[static_cast<size_t>(machine.running)]->state = State::done;
  // uc_link returns to the scheduler
}

// The running fibre waits in `state` until the scheduler takes it up again.
void pause(State state) {
  Fibre& self = *machine.fibres[static_cast<size_t>(machine.running)];
  self.state = state;
  swapcontext(&self.context, &machine.scheduler);
}

void prepare(Fibre& fibre) {
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.stack.get();
  fibre.context.uc_stack.ss_size = kStack;
  fibre.context.uc_link = &machine.scheduler;
  makecontext(&fibre.context, run_fibre, 0);
  fibre.state = State::ready;
}

void resume(int at) {
  Fibre& fibre = *machine.fibres[static_cast<size_t>(at)];
  machine.running = at;
  machine.place.thread_index = fibre.index;
  swapcontext(&machine.scheduler, &fibre.context);
}

void run_block(int threads) {
  Machine& m = machine;
  for (Warp& warp : m.warps) warp = {};
  for (int i = 0; i < threads; ++i) {
    Fibre& fibre = *m.fibres[static_cast<size_t>(i)];
    const unsigned at = static_cast<unsigned>(i);
    fibre.index = {at % m.place.block.x, at / m.place.block.x % m.place.block.y,
                   at / (m.place.block.x * m.place.block.y)};
    prepare(fibre);
  }
  // Every second block runs its threads from the last to the first: who relies on an order shows.
  const bool backwards = (m.place.block_index.x & 1u) != 0;
  for (;;) {
    bool ran = false;
    for (int k = 0; k < threads; ++k) {
      const int i = backwards ? threads - 1 - k : k;
      if (m.fibres[static_cast<size_t>(i)]->state != State::ready) continue;
      ran = true;
      resume(i);
    }
    if (ran) continue;
    int waiting = 0, alive = 0;
    for (int i = 0; i < threads; ++i) {
      const State state = m.fibres[static_cast<size_t>(i)]->state;
      alive += state != State::done;
      waiting += state == State::at_barrier;
    }
    if (alive == 0) return;
    if (waiting < alive) end("lanes wait for others of their warp, which never come");
    for (int i = 0; i < threads; ++i) {
      Fibre& fibre = *m.fibres[static_cast<size_t>(i)];
      if (fibre.state == State::at_barrier) fibre.state = State::ready;
    }
  }
}

// One operation of the running fibre's warp; returns the slots that hold all lanes' values.
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
      Fibre& fibre = *m.fibres[static_cast<size_t>(warp_at * kLanes + lane)];
      if ((mask >> lane & 1u) && fibre.state == State::in_warp) fibre.state = State::ready;
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

unsigned ballot(unsigned mask, bool value) {
  const uint64_t* values = meet(mask, value ? 1 : 0);
  unsigned result = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((mask >> i & 1u) && values[i] != 0) result |= 1u << i;
  }
  return result;
}

void launch(const char* op, dim3 grid, dim3 block, size_t shared, cudaStream_t,
            const std::function<void()>& thread) {
  Machine& m = machine;
  m.op = op;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024) end("a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) end("a grid has no blocks");
  if (grid.y > 65535 || grid.z > 65535) end("a grid is at most 65535 blocks high and deep");
  if (shared > 227 * 1024) end("a block has at most 227 KiB of shared memory");
  m.thread = &thread;
  m.place.grid = grid;
  m.place.block = block;
  while (m.fibres.size() < threads) m.fibres.push_back(std::make_unique<Fibre>());
  m.warps.resize((threads + kLanes - 1) / kLanes);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        m.place.block_index = {x, y, z};
        m.shared.assign(shared / 8 + 1, ~uint64_t{0});  // NaN to whoever reads it unwritten
        run_block(static_cast<int>(threads));
      }
    }
  }
}

}  // namespace cusim
