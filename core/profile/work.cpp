#include <iterator>
#include <utility>

#include <hero/core/profile/metered_backend.h>
#include <hero/core/profile/work.h>

namespace hero::core {

constinit thread_local WorkMeter* work_meter = nullptr;

const char* name(WorkKind kind) {
  static constexpr const char* names[] = {"matmul",      "attention", "window",
                                          "elementwise", "reduce",    "copy"};
  static_assert(std::size(names) == kWorkKindCount);
  return names[static_cast<int>(kind)];
}

WorkMeter* current_work_meter() { return work_meter; }

WorkScope::WorkScope(WorkMeter* meter) : previous_(std::exchange(work_meter, meter)) {}

WorkScope::~WorkScope() { work_meter = previous_; }

}  // namespace hero::core
