#pragma once
// Window: limits how many messages are under way at a time.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hero::dist {

/// How many messages of a kind a reduction has under way.
inline constexpr int kWindow = 256;

/// Messages numbered from 0, of which at most `size` are under way at once. They end in any order,
/// and are counted as done in that of their numbers.
class Window {
 public:
  explicit Window(int size) : pending_(static_cast<size_t>(size)) {}
  int64_t next() const { return next_; }
  int64_t done() const { return done_; }
  bool open() const { return next_ < done_ + static_cast<int64_t>(pending_.size()); }
  /// Begins the next message; returns the counter that Transport increases and decreases for it.
  int& begin() { return pending_[static_cast<size_t>(next_++) % pending_.size()]; }
  /// Counts messages that have ended; returns true if there are any.
  bool retire() {
    const int64_t before = done_;
    while (done_ < next_ && pending_[static_cast<size_t>(done_) % pending_.size()] == 0) ++done_;
    return done_ > before;
  }

 private:
  int64_t next_ = 0, done_ = 0;
  std::vector<int> pending_;
};

}  // namespace hero::dist
