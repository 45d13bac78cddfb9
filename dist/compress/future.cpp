#include <hero/dist/comm_hook.h>

namespace hero::dist {

void Future::advance() {
  work_.wait();
  work_ = {};
  if (next_ == steps_.size()) return;
  work_ = std::exchange(steps_[next_++], nullptr)();  // which lets go of its arrays
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
