#pragma once
// Tests of what is not waited for, over tests/cusim.
#if defined(HERO_TEST_CUSIM)
#include <cuda_runtime.h>

namespace hero_test {

/// While this lives work waits for somebody to wait for it or, with false, is done at once.
class Deferred {
 public:
  explicit Deferred(bool deferred = true) { cusim::set_deferred(deferred); }
  ~Deferred() {
    cusim::break_next(nullptr);
    cusim::set_deferred(before_);
  }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

 private:
  const bool before_ = cusim::is_deferred();
};

}  // namespace hero_test
#endif
