#pragma once
// ThreadState: the thread-local settings that functions of the library read, beside their
// arguments: whether operations are recorded, Autocast, the current ledger, the generator. A thread
// that works for another one needs the same settings.
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace hero::core {

/// How long another thread may use a copy of a thread's value.
enum class ThreadValue {
  lasting,  ///< without a limit
  scoped,   ///< while its thread waits, since it points to an object on that thread's stack
};

/// One of these settings. Its component registers it at namespace scope beside the thread_local
/// that holds it, so that code which starts a thread need not know of it. Values that serve one
/// thread alone (caches, counts, an open profiler) are not registered; tests/layers/thread_locals
/// says of each thread_local which it is.
class ThreadSlotBase {
 public:
  ThreadSlotBase(const ThreadSlotBase&) = delete;
  ThreadSlotBase& operator=(const ThreadSlotBase&) = delete;

 protected:
  /// Copies the calling thread's value to or from memory.
  using Save = void (*)(const ThreadSlotBase& slot, std::byte* to);
  using Load = void (*)(const ThreadSlotBase& slot, const std::byte* from);

  ThreadSlotBase(size_t bytes, ThreadValue value, Save save, Load load);
  ~ThreadSlotBase() = default;

 private:
  friend class ThreadState;

  const ThreadValue value_;
  const Save save_;
  const Load load_;
  size_t begin_;                // where its bytes begin in a ThreadState
  const ThreadSlotBase* next_;  // the slot that was registered before this one
};

/// A slot of type T, which is read and set by two functions:
///   [[maybe_unused]] const core::ThreadSlot<bool> kRecordingSlot(
///       [] { return recording; }, [](bool on) { recording = on; });
template <class T>
class ThreadSlot : public ThreadSlotBase {
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr size_t kBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): of a pointer

 public:
  /// Registers the slot, before main.
  ThreadSlot(T (*get)(), void (*set)(T), ThreadValue value = ThreadValue::lasting)
      : ThreadSlotBase(kBytes, value, save, load), get_(get), set_(set) {}

 private:
  static void save(const ThreadSlotBase& slot, std::byte* to) {
    const T value = static_cast<const ThreadSlot&>(slot).get_();
    std::memcpy(to, &value, kBytes);
  }
  static void load(const ThreadSlotBase& slot, const std::byte* from) {
    T value;
    std::memcpy(&value, from, kBytes);
    static_cast<const ThreadSlot&>(slot).set_(value);
  }

  T (*get_)();
  void (*set_)(T);
};

/// The registered values of one thread, for another thread that works for it.
///
///   const core::ThreadState state = core::ThreadState::of_waiting();
///   std::thread helper([&] {
///     const core::ThreadState::Scope use(state);
///     ...
///   });
class ThreadState {
 public:
  /// All values of the calling thread, for threads that it waits for before it leaves any scope.
  static ThreadState of_waiting() { return ThreadState(true); }
  /// The lasting values of the calling thread, for threads that run on beside it.
  static ThreadState of_going_on() { return ThreadState(false); }

  class Scope;

 private:
  friend class ThreadSlotBase;
  static constexpr size_t kBytes = 256;

  explicit ThreadState(bool scoped);
  void use(bool scoped) const;

  const ThreadSlotBase* newest_;  // the newest of the slots whose values these are
  bool scoped_;                   // values that point to a stack are among them
  std::array<std::byte, kBytes> values_ = {};
};

/// While it lives, the calling thread has the values of a state; afterwards its own again.
class ThreadState::Scope {
 public:
  /// Begins the scope.
  explicit Scope(const ThreadState& state) : own_(true), scoped_(state.scoped_) {
    state.use(scoped_);
  }
  ~Scope() { own_.use(scoped_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const ThreadState own_;
  const bool scoped_;
};

}  // namespace hero::core
