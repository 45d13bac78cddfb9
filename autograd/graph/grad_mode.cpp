// Whether operations of a thread are recorded for backward.
#include <hero/autograd/graph/grad_mode.h>
#include <hero/core/threads/thread_state.h>

namespace hero {
namespace {

thread_local bool recording = true;
[[maybe_unused]] const core::ThreadSlot<bool> kRecordingSlot([] { return recording; },
                                                             [](bool on) { recording = on; });

}  // namespace

bool grad_enabled() { return recording; }
GradMode::GradMode(bool enabled) : previous_(recording) { recording = enabled; }
GradMode::~GradMode() { recording = previous_; }

}  // namespace hero
