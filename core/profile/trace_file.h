#pragma once
// Timelines as files that Perfetto (ui.perfetto.dev) and chrome://tracing open: the Trace Event
// Format, as JSON.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hero::core {

/// A name and a value that viewers show for a selected event.
struct TraceArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

/// Writes events one after the other, in any order of time. Times are seconds from an origin of the
/// caller's choice. A process is a rank, and a thread one of its tracks (compute, a link, ..). The
/// file appears when close() returns; without close() there is none. Throws an Error that names the
/// file if it cannot be written. Only one thread at a time may use it.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  ~TraceFile();

  void name_process(int process, std::string_view name);
  void name_thread(int process, int thread, std::string_view name);
  /// An interval that begins at `begin` and lasts `seconds`. Intervals of a track nest or follow
  /// each other.
  void span(int process, int thread, std::string_view name, double begin, double seconds,
            const std::vector<TraceArg>& args = {});
  /// A value of a chart of a process: from `time` on, its series have these values. Viewers stack
  /// them.
  void counter(int process, std::string_view name, double time, std::span<const TraceArg> series);
  /// An arrow from the interval of one track at `from_time` to the first interval of the other
  /// track that begins at `to_time` or later.
  void arrow(std::string_view name, int from_process, int from_thread, double from_time,
             int to_process, int to_thread, double to_time);
  void close();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace hero::core
