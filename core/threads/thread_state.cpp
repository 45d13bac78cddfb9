#include <cstdio>
#include <cstdlib>

#include <hero/core/threads/thread_state.h>

namespace hero::core {

namespace {

// Slots are registered while there is one thread, before main or as a library is loaded.
constinit const ThreadSlotBase* newest_slot = nullptr;
constinit size_t slot_bytes = 0;

}  // namespace

ThreadSlotBase::ThreadSlotBase(size_t bytes, ThreadValue value, Save save, Load load)
    : value_(value), save_(save), load_(load), begin_(slot_bytes), next_(newest_slot) {
  slot_bytes += bytes;
  if (slot_bytes > ThreadState::kBytes) {  // before main, where nobody could catch an Error
    std::fprintf(stderr, "hero: thread state: its slots take more than %zu bytes\n",
                 ThreadState::kBytes);
    std::abort();
  }
  newest_slot = this;
}

ThreadState::ThreadState(bool scoped) : newest_(newest_slot), scoped_(scoped) {
  for (const ThreadSlotBase* slot = newest_; slot != nullptr; slot = slot->next_) {
    slot->save_(*slot, values_.data() + slot->begin_);
  }
}

void ThreadState::use(bool scoped) const {
  for (const ThreadSlotBase* slot = newest_; slot != nullptr; slot = slot->next_) {
    if (slot->value_ == ThreadValue::scoped && !scoped) continue;
    slot->load_(*slot, values_.data() + slot->begin_);
  }
}

}  // namespace hero::core
