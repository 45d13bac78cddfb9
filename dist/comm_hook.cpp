#include <hero/dist/comm_hook.h>

namespace hero::dist {

void Future::advance() {
  work_.wait();
  work_ = {};
  if (next_ >= steps_.size()) return;
  const std::function<Work()> step = std::exchange(steps_[next_++], nullptr);
  check(static_cast<bool>(step), "future: a step that then() added is no function");
  work_ = step();  // which lets go of its arrays
}

void Future::wait() {
  while (next_ < steps_.size()) advance();
  work_.wait();
  work_ = {};
}

void Future::abandon() {
  work_.wait();
  *this = Future();
}

}  // namespace hero::dist
