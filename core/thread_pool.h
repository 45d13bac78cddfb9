#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace hero {

// The number of threads that take part in a parallel region, including the caller. It begins as
// HERO_NUM_THREADS if that is set (an Error if it is not a whole number from 1 to 1024), else as
// the number of hardware threads.
int num_threads();

// Changes num_threads() for the whole process; waits for a running region to end. A number that is
// set while a ThreadLimit lives holds only until that ThreadLimit ends. Throws an Error if n is
// outside [1, 1024], or if called from inside a region.
void set_num_threads(int n);

// True while the calling thread works on a chunk of a parallel region; a region started there runs
// inline.
bool in_parallel_region();

// While it lives, regions that this thread starts run only on this thread; for threads that must
// leave the pool to others.
class SerialRegion {
 public:
  SerialRegion();
  ~SerialRegion();
  SerialRegion(const SerialRegion&) = delete;
  SerialRegion& operator=(const SerialRegion&) = delete;

 private:
  bool former_;
};

// Sets the number of threads for a scope. Scopes may overlap in any order, as those of several
// threads do: the newest one that lives counts, and after the last one the number is what it was
// before the first. Throws an Error as set_num_threads() does.
class ThreadLimit {
 public:
  explicit ThreadLimit(int n);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

namespace detail {
using ChunkFn = void (*)(void* context, int64_t begin, int64_t end);
void run_chunks(int64_t n, int64_t grain, ChunkFn fn, void* context);
}  // namespace detail

// Calls body(begin, end) once for each chunk [i * grain, min(n, (i + 1) * grain)) of [0, n), on
// num_threads() threads, and returns when all are done. The chunks are the same for any number of
// threads, and only the thread that runs each chunk differs, so results have the same bits. It runs
// on the calling thread alone if one chunk is enough, inside another region, and while another
// thread's region keeps the pool busy. The first exception that body throws is thrown again here,
// and chunks that have not begun by then are dropped. grain must be positive.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& body) {
  if (n <= grain) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  using Body = std::remove_reference_t<F>;
  auto call = [](void* context, int64_t begin, int64_t end) {
    (*static_cast<Body*>(context))(begin, end);
  };
  auto* context = const_cast<std::remove_const_t<Body>*>(std::addressof(body));
  detail::run_chunks(n, grain, call, static_cast<void*>(context));
}

}  // namespace hero
