#include <hero/autograd/offload/offload.h>
#include <hero/autograd/offload/offload_blocks.h>

namespace hero {

OffloadTraffic offload_traffic() { return detail::OffloadBlocks::current().traffic(); }

detail::OffloadScope::OffloadScope(const OffloadOptions& options) : options_(options) {
  OffloadBlocks& blocks = OffloadBlocks::current();
  if (offload_calls == 0) blocks.begin_call(options_);
  previous_ = blocks.enter(&options_);
  ++offload_calls;
}

detail::OffloadScope::~OffloadScope() {
  --offload_calls;
  OffloadBlocks::current().enter(previous_);
}

void detail::OffloadScope::finish() const { OffloadBlocks::current().end_call(options_); }

}  // namespace hero
