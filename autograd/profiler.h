#pragma once
// Where the time of a program goes: by operation, by module, and as a timeline.
#include <memory>
#include <string>

#include <hero/autograd/profile/profile.h>
#include <hero/core/device.h>
#include <hero/core/profile/observer.h>

namespace hero {

struct ProfilerOptions {
  int steps = 0;         ///< ends by itself after so many optimizer steps; 0: it does not
  bool work = true;      ///< counts flops and bytes of kernels
  Device memory = kCpu;  ///< whose memory is charted, by kind of device
  /// Waits for the GPU after every interval, so that times are the GPU's. Without it the times of
  /// work on a GPU are those of handing it over: short, and the one who waits has the sum.
  bool synchronize = false;
  int64_t most_events = 500'000;  ///< kept for save(), 48 bytes each; sums have all
};

/// While it lives, what its thread does is recorded: operations with the module (PlaceScope) they
/// run in, their derivatives with that module, optimizer steps, data loading, each ProfileScope,
/// and on ranks the calls to others and the waits for them:
///
///     Profiler profiler({.steps = 5});
///     train(model);
///     std::puts(profiler.table().c_str());
///     std::puts(profiler.table({.by = ProfileBy::module, .depth = 2}).c_str());
///     profiler.save("trace.json");
///
/// An operation that calls others is one interval; time goes to the innermost interval. One a
/// thread: a second one is an Error. Ranks that are threads have one each; dist::save_profiles()
/// makes one file of all. What the thread's pool computes counts for the operation that waits for
/// it; what other threads of the program do is not seen. Made, used and destroyed on one thread.
class Profiler {
 public:
  explicit Profiler(const ProfilerOptions& options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Records no more; the destructor does it too. Intervals that are open end here.
  void stop();
  /// Whether it still records.
  bool running() const;
  /// What was recorded so far: intervals that have ended, and the time until now.
  Profile profile() const;

  /// Profile::table() of it.
  std::string table(const ProfileTableOptions& options = {}) const;
  /// save_trace() of it.
  void save(const std::string& path) const;

 private:
  std::unique_ptr<class ProfileRecorder> recorder_;
};

}  // namespace hero
