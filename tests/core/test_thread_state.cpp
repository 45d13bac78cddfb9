// What a thread hands over to another one that works for it, with slots of the test's own.
#include <thread>

#include "support/catch.h"

#include <hero/core/array.h>
#include <hero/core/ledger.h>
#include <hero/core/thread_pool.h>
#include <hero/core/threads/thread_state.h>

using namespace hero;
using core::ThreadState;

namespace {

struct OwnMode {
  double scale = 1.0;
  char kind = 'a';
  bool operator==(const OwnMode&) const = default;
};
thread_local OwnMode own_mode;
thread_local const int* own_object = nullptr;

[[maybe_unused]] const core::ThreadSlot<OwnMode> kOwnModeSlot([] { return own_mode; },
                                                              [](OwnMode mode) {
                                                                own_mode = mode;
                                                              });
[[maybe_unused]] const core::ThreadSlot<const int*> kOwnObjectSlot([] { return own_object; },
                                                                   [](const int* object) {
                                                                     own_object = object;
                                                                   },
                                                                   core::ThreadValue::scoped);

}  // namespace

TEST_CASE("a slot goes with a state, to any thread and back", "[core][threads]") {
  const int object = 3;
  own_mode = {2.5, 'b'};
  own_object = &object;
  const ThreadState waiting = ThreadState::of_waiting(), going_on = ThreadState::of_going_on();
  own_mode = {};
  own_object = nullptr;
  OwnMode seen[4];
  const int* objects[4] = {};
  const int mine = 4;
  std::thread([&] {
    const auto look = [&](int i) {
      seen[i] = own_mode;
      objects[i] = own_object;
    };
    own_object = &mine;
    look(0);
    {
      const ThreadState::Scope use(waiting);
      look(1);
      own_mode.kind = 'c';  // its own changes end with the scope, too
      {
        const ThreadState::Scope inner(going_on);
        look(2);
      }
      CHECK(own_mode == OwnMode{2.5, 'c'});
    }
    look(3);
  }).join();
  CHECK(seen[0] == OwnMode{});
  CHECK(seen[1] == OwnMode{2.5, 'b'});
  CHECK(seen[2] == OwnMode{2.5, 'b'});
  CHECK(seen[3] == OwnMode{});
  CHECK(objects[0] == &mine);
  CHECK(objects[1] == &object);
  CHECK(objects[2] == &object);  // of a caller that goes on, nothing on its stack
  CHECK(objects[3] == &mine);
  CHECK(own_mode == OwnMode{});
}

TEST_CASE("what the pool's threads allocate is charged as the caller says", "[core][threads]") {
  const ThreadLimit three(3);
  Ledger ledger;
  std::vector<Array> arrays(30);
  {
    const LedgerScope charged(ledger);
    const MemoryScope tagged(MemoryTag::gradient);
    parallel_for(30, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        arrays[static_cast<size_t>(i)] = Array::empty({1000});
        std::this_thread::yield();  // so that others take some
      }
    });
  }
  CHECK(ledger.live(MemoryTag::gradient) == 30 * 4000);
  CHECK(ledger.live(DeviceType::cpu) == 30 * 4000);
  arrays.clear();
  CHECK(ledger.live(DeviceType::cpu) == 0);
}
