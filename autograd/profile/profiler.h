#pragma once
// The profiler: where the time of a program goes, by operation, by module, and as a timeline.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/ledger.h>
#include <hero/core/profile/observer.h>

namespace hero {

/// What an interval of a thread's time was spent on.
enum class ProfilePhase : uint8_t {
  forward,    ///< an operation that the program called
  backward,   ///< the derivative of an operation, or one called by a hook of backward
  recompute,  ///< an operation run again for its checkpoint
  part,       ///< a ProfileScope, a whole backward pass, an optimizer's step
  wait,       ///< waiting for other ranks
};
inline constexpr int kProfilePhaseCount = 5;
const char* name(ProfilePhase phase);

/// Sums over all intervals with the same name, module and phase.
struct ProfileRow {
  std::string name;    ///< the operation's name, as in errors, or the part's
  std::string module;  ///< path of the module it ran in; of derivatives: of their operation
  ProfilePhase phase = ProfilePhase::forward;
  int64_t calls = 0;
  double seconds = 0.0;       ///< including the intervals inside
  double self_seconds = 0.0;  ///< without them; all rows together have at most the wall-clock time
  int64_t flops = 0;          ///< flops without the intervals inside; a multiply-add counts as two
  int64_t bytes = 0;          ///< bytes that kernels read and write, likewise; see core::KernelCost
};

/// Sums over all calls to other ranks with the same operation, axis and unit, as in dist::Traffic.
struct ProfileCollective {
  std::string op, axis, unit;
  int64_t calls = 0;
  int64_t bytes = 0;  ///< bytes that this rank sent
  /// From the beginning of each call until the rank knew that it was complete.
  double seconds = 0.0;
  double waited = 0.0;  ///< time in which the rank only waited for them
};

/// What each line of a table stands for.
enum class ProfileBy : uint8_t {
  operation,   ///< name and phase
  module,      ///< path, all phases together
  collective,  ///< operation, axis and unit of calls to other ranks
};

/// Options of Profile::table().
struct ProfileTableOptions {
  ProfileBy by = ProfileBy::operation;  ///< what each line stands for
  int rows = 20;  ///< largest number of lines; the other rows are added up in one
  int depth = 0;  ///< by module: length of paths, in names ("h.0" has 2); 0: all
  /// Flops per second of the device. If given, there are two columns with the shares of it: MFU
  /// (model flops utilisation) without what checkpoints compute again, and HFU (hardware flops
  /// utilisation) with it. The flops of all kernels count.
  double peak_flops = 0.0;
};

/// What a thread did and how long it took. Times are in seconds, from an origin that all threads of
/// a process share.
struct Profile {
  /// An interval. The intervals of a thread nest.
  struct Event {
    int32_t row = 0;    ///< index in `rows`
    int32_t depth = 0;  ///< number of intervals around it
    double begin = 0.0, seconds = 0.0;
    int64_t flops = 0, bytes = 0;
  };
  /// A call to other ranks.
  struct Call {
    int64_t row = 0;  ///< index in `collectives`
    double begin = 0.0;
    double end = -1.0;  ///< when the rank knew that it was complete; -1: it never did
    int64_t bytes = 0;
  };
  /// The bytes in the thread's ledger after an operation, by MemoryTag.
  struct Memory {
    double time = 0.0;
    std::array<int64_t, kMemoryTagCount> live = {};
  };

  std::string label = "main";         ///< name of the process in a trace
  int32_t rank = 0;                   ///< number of the process in a trace
  int32_t steps = 0;                  ///< steps of optimizers
  double begin = 0.0, seconds = 0.0;  ///< of the whole profile, from the first interval or call on
  int64_t left_out = 0;  ///< intervals and calls beyond the limit, which only rows count
  std::vector<ProfileRow> rows;
  std::vector<ProfileCollective> collectives;
  std::vector<Event> events;  ///< intervals, in the order of their ends
  std::vector<Call> calls;    ///< calls, in the order of their beginnings
  std::vector<Memory> memory;

  /// Adds up rows by operation and phase, or by module (ProfileBy::module, with the name ""); the
  /// longest self time comes first.
  std::vector<ProfileRow> sums(ProfileBy by, int depth = 0) const;
  /// A table of lines sorted by self time, with shares of the wall-clock time and rates: the self
  /// times of all lines and "(elsewhere)" add up to the wall-clock time.
  std::string table(const ProfileTableOptions& options = {}) const;

  /// Converts the profile to bytes, for other processes on the same kind of machine, and back.
  /// decode() throws an Error for bytes that are not a profile.
  std::string encode() const;
  static Profile decode(std::string_view bytes);
};

/// Writes profiles into one file that Perfetto and chrome://tracing can open: a process for each,
/// with tracks for what the thread did and for the calls under way, and a chart of memory by tag.
/// Throws an Error that names the file if it cannot be written.
void save_trace(const std::string& path, std::span<const Profile> profiles);

/// Options of Profiler.
struct ProfilerOptions {
  int steps = 0;         ///< optimizer steps after which it stops by itself; 0: it does not
  bool work = true;      ///< true: count flops and bytes of kernels
  Device memory = kCpu;  ///< kind of device whose memory is charted
  /// True: wait for the GPU after every interval, so that times are those of the GPU. False: the
  /// times of work on a GPU are those of launching it, and the operation that waits for the results
  /// has the rest.
  bool synchronize = false;
  /// Intervals and calls that are kept, at 48 bytes each; rows count all.
  int64_t most_events = 500'000;
};

/// While it lives, it records what its thread does: operations with the module (PlaceScope) in
/// which they run, their derivatives with the same module, optimizer steps, data loading, each
/// ProfileScope, and on ranks the calls to other ranks and the waiting for them:
///
///     Profiler profiler({.steps = 5});
///     train(model);
///     std::puts(profiler.table().c_str());
///     std::puts(profiler.table({.by = ProfileBy::module, .depth = 2}).c_str());
///     profiler.save("trace.json");
///
/// An operation that calls others is one interval; time counts for the innermost interval. A thread
/// can have one profiler; a second is an Error. Ranks that are threads have one each;
/// dist::save_profiles() writes all into one file. Work of the thread pool counts for the operation
/// that waits for it; other threads of the program are not recorded. Make, use and destroy it on
/// the same thread.
class Profiler {
 public:
  /// Begins to record.
  explicit Profiler(const ProfilerOptions& options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Stops recording, as the destructor does. Open intervals end here.
  void stop();
  /// True while it records.
  bool running() const;
  /// What was recorded so far: the intervals that have ended, and the time until now.
  Profile profile() const;

  /// Returns profile().table(options).
  std::string table(const ProfileTableOptions& options = {}) const;
  /// Writes profile() by save_trace().
  void save(const std::string& path) const;

 private:
  std::unique_ptr<class ProfileRecorder> recorder_;
};

}  // namespace hero
