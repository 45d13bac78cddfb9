#pragma once
// Counts the calls of a rank for whose end it has, and has not, waited.
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "exercises/support/grade.h"

#include <hero/core/profile/observer.h>

namespace exercise {

/// While it lives, counts the calls of this rank that begin.
class UnderWay : public hero::core::Observer {
 public:
  UnderWay() { hero::core::observer = this; }
  ~UnderWay() override { hero::core::observer = nullptr; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  int64_t begin_part(std::string_view, bool) override { return next(); }
  void end_part(int64_t) noexcept override {}
  int64_t begin_call(const hero::core::ObservedCall&) override {
    return *calls_.insert(next()).first;
  }
  int64_t begin_wait(int64_t) override { return next(); }
  void complete_call(int64_t call) noexcept override {
    complete_ += static_cast<int64_t>(calls_.erase(call));
  }
  /// Those for whose end it has not waited.
  int64_t count() const { return static_cast<int64_t>(calls_.size()); }
  /// Those for whose end it has.
  int64_t complete() const { return complete_; }
  /// Throws Wrong unless it has waited for all. `when` says what has ended.
  void require_complete(const std::string& when) const {
    require(
        calls_.empty(), "After ", when, " ", count(), " of ", count() + complete_,
        " calls have not been waited for, and what they give is not there. With .async = true "
        "a call returns a Work, whose wait() is to be called; without it, it returns when it is "
        "complete.");
  }

 private:
  static int64_t next() {
    static std::atomic<int64_t> last = 0;
    return ++last;
  }
  std::set<int64_t> calls_;
  int64_t complete_ = 0;
};

}  // namespace exercise
