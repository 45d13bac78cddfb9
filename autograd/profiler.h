#pragma once
// Where the time of a program goes: by operation, by module, and as a timeline.
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

/// What an interval of a thread was spent on.
enum class ProfilePhase : uint8_t {
  forward,    ///< an operation that the program called
  backward,   ///< the derivative of one, or an operation called by a hook of the backward pass
  recompute,  ///< an operation run again for its checkpoint
  part,       ///< a ProfileScope, a whole backward pass, an optimizer's step
  wait,       ///< waiting for other ranks
};
inline constexpr int kProfilePhaseCount = 5;
const char* name(ProfilePhase phase);

/// Sums over all intervals of one name, module and phase.
struct ProfileRow {
  std::string name;    ///< the operation's name in errors, or the part's
  std::string module;  ///< path of the module it ran in; of derivatives: of their operation
  ProfilePhase phase = ProfilePhase::forward;
  int64_t calls = 0;
  double seconds = 0.0;       ///< with the intervals inside
  double self_seconds = 0.0;  ///< without them: of all rows together at most the wall's
  int64_t flops = 0;          ///< of self: a multiply-add is two
  int64_t bytes = 0;          ///< of self: read and written by kernels, see core::Work
};

/// Sums over the calls to other ranks of one operation, axis and unit, as in dist::Traffic.
struct ProfileCollective {
  std::string op, axis, unit;
  int64_t calls = 0;
  int64_t bytes = 0;     ///< that this rank sent
  double seconds = 0.0;  ///< from each call's begin until the rank knew that it was complete
  double waited = 0.0;   ///< that the rank waited for them, doing nothing else
};

/// What a table has a line of.
enum class ProfileBy : uint8_t {
  operation,   ///< name and phase
  module,      ///< path, all phases together
  collective,  ///< operation, axis and unit of calls to other ranks
};

struct ProfileTableOptions {
  ProfileBy by = ProfileBy::operation;
  int rows = 20;            ///< lines at most; the others are added up in one
  int depth = 0;            ///< by module: names of the path that count ("h.0" has 2); 0: all
  double peak_flops = 0.0;  ///< of the device a second; given: a column with the share reached
};

/// What one thread did, and how long it took: seconds from a zero that all threads of a process
/// share.
struct Profile {
  /// One interval. Those of a thread nest.
  struct Event {
    int32_t row = 0;    ///< of `rows`
    int32_t depth = 0;  ///< intervals around it
    double begin = 0.0, seconds = 0.0;
    int64_t flops = 0, bytes = 0;
  };
  /// One call to other ranks.
  struct Call {
    int64_t row = 0;  ///< of `collectives`
    double begin = 0.0;
    double end = -1.0;  ///< when the rank knew that it was complete; -1: it never asked
    int64_t bytes = 0;
  };
  /// Bytes that the thread's ledger held after an operation, by MemoryTag.
  struct Memory {
    double time = 0.0;
    std::array<int64_t, kMemoryTagCount> live = {};
  };

  std::string label = "main";         ///< shown as the process's name in a trace
  int32_t rank = 0;                   ///< number of the process in a trace
  int32_t steps = 0;                  ///< optimizer steps inside
  double begin = 0.0, seconds = 0.0;  ///< from the first interval or call on
  int64_t left_out = 0;  ///< intervals and calls over the limit: in rows, not in events or calls
  std::vector<ProfileRow> rows;
  std::vector<ProfileCollective> collectives;
  std::vector<Event> events;  ///< in the order of their ends
  std::vector<Call> calls;    ///< in the order of their begins
  std::vector<Memory> memory;

  /// Rows added up by operation and phase, or by module (ProfileBy::module; name is then ""), the
  /// longest self time first.
  std::vector<ProfileRow> sums(ProfileBy by, int depth = 0) const;
  /// Lines sorted by self time, with shares of the wall's time, rates and what is left over: the
  /// self times of all lines and "(elsewhere)" add up to the wall's time.
  std::string table(const ProfileTableOptions& options = {}) const;

  /// All of it as bytes, for other processes of the same kind of machine; and back, with an Error
  /// for bytes that are none.
  std::string encode() const;
  static Profile decode(std::string_view bytes);
};

/// Writes profiles into one file that Perfetto and chrome://tracing open: a process each, with
/// tracks for what the thread did and for the calls under way, and memory by tag as a chart. An
/// Error names a file that cannot be written.
void save_trace(const std::string& path, std::span<const Profile> profiles);

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
