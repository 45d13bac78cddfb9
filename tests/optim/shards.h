#pragma once
// Ranks as threads of one test, and parameters cut into shards that they own together.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <hero/autograd/sharding/partition.h>

namespace hero_test {

/// Where threads meet to combine words.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}

  /// All threads' words, combined two at a time in order of arrival.
  template <class Op>
  void combine(std::span<int64_t> words, const Op& op) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0) total_.assign(words.begin(), words.end());
    if (words.size() != total_.size()) broken_ = true;
    if (arrived_ > 0 && !broken_) {
      std::transform(words.begin(), words.end(), total_.begin(), total_.begin(), op);
    }
    const int64_t round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      result_ = total_;
      ready_.notify_all();
    }
    ready_.wait(lock, [&] { return round_ != round || broken_; });
    hero::check(!broken_, "meeting: somebody threw or came with another number of words");
    std::copy(result_.begin(), result_.end(), words.begin());
  }
  /// Nobody waits any longer.
  void leave() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    ready_.notify_all();
  }
  int64_t rounds() const { return round_; }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable ready_;
  int arrived_ = 0;
  int64_t round_ = 0;
  bool broken_ = false;
  std::vector<int64_t> total_, result_;
};

/// A group whose ranks are threads.
class Together : public hero::RankGroup {
 public:
  explicit Together(Meeting& meeting) : meeting_(meeting) {}
  void add_up(const hero::Array& words) override {
    meeting_.combine(words_of(words), [](int64_t a, int64_t b) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    });
  }
  // int64, or float64 that is 0 or more, whose bits are ordered like the numbers; NaN is above all.
  void largest(const hero::Array& x) override {
    meeting_.combine(words_of(x), [](int64_t a, int64_t b) { return std::max(a, b); });
  }

 private:
  static std::span<int64_t> words_of(const hero::Array& x) {
    hero::check(hero::item_size(x.dtype()) == 8, "meeting: words of 8 bytes, not ", x.dtype());
    return {reinterpret_cast<int64_t*>(x.bytes()), static_cast<size_t>(x.numel())};
  }
  Meeting& meeting_;
};

using GroupPtr = std::shared_ptr<hero::RankGroup>;

/// Runs body(rank, group) on `size` threads that own shards together; throws what one of them
/// threw. Returns how often they met.
inline int64_t on_ranks(int size, const std::function<void(int rank, GroupPtr group)>& body) {
  Meeting meeting(size);
  std::mutex mutex;
  std::exception_ptr error;  // the first one: others follow from it
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, std::make_shared<Together>(meeting));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        meeting.leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  return meeting.rounds();
}

/// Elements begin ... end - 1 of an array of any shape; shares memory.
inline hero::Array piece_of(const hero::Array& whole, int64_t begin, int64_t end) {
  return whole.reshape({-1}).slice(0, begin, end);
}

/// A leaf over a copy of such a piece, as a rank would hold it, with the same piece of the gradient
/// if there is one.
inline hero::Tensor shard_of(const hero::Tensor& whole, int64_t begin, int64_t end,
                             GroupPtr group) {
  const hero::Tensor shard(piece_of(whole.array(), begin, end).clone(), true);
  set_part(shard, shard.array(),
           std::make_shared<hero::Partition>(
               hero::Partition{whole.shape(), {}, begin, std::move(group)}));
  const hero::Tensor grad = whole.grad();
  if (grad.defined()) shard.set_grad(hero::Tensor(piece_of(grad.array(), begin, end).clone()));
  return shard;
}

/// Writes a shard's elements and gradient into the whole. Ranks may do so side by side: they write
/// different bytes.
inline void put_back(const hero::Tensor& shard, const hero::Tensor& whole) {
  const auto write = [&](const hero::Array& from, const hero::Array& to) {
    const int64_t skipped = partition(shard)->first * hero::item_size(to.dtype());
    if (from.numel() > 0) {
      std::memcpy(to.bytes() + skipped, from.bytes(), static_cast<size_t>(from.nbytes()));
    }
  };
  write(shard.array(), whole.array());
  const hero::Tensor from = shard.grad(), to = whole.grad();
  if (from.defined() && to.defined()) write(from.array(), to.array());
}

/// The shard of rank `rank` of `size` ranks, who share unevenly; some get nothing.
inline hero::Tensor shard_of_rank(const hero::Tensor& whole, int rank, int size, GroupPtr group) {
  const auto cut = [&](int64_t at) { return whole.numel() * at * at / (int64_t{1} * size * size); };
  return shard_of(whole, cut(rank), cut(rank + 1), std::move(group));
}

}  // namespace hero_test
