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

/// One entry of what an event shows where it is selected.
struct TraceArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

/// Writes events one after the other, in any order of time. Times are seconds from a zero of the
/// caller's choice. A process is a rank, a thread one of its tracks (compute, a link, ..). The file
/// appears when close() returns; without it nothing is left. An Error names the file that cannot be
/// written. One thread at a time.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  ~TraceFile();

  void name_process(int process, std::string_view name);
  void name_thread(int process, int thread, std::string_view name);
  /// Something that lasts from `begin` for `seconds`. Spans of a track nest or follow each other.
  void span(int process, int thread, std::string_view name, double begin, double seconds,
            const std::vector<TraceArg>& args = {});
  /// A chart of a process: its series, stacked, have these values from `time` on.
  void counter(int process, std::string_view name, double time, std::span<const TraceArg> series);
  /// An arrow from the span that a track has at `from_time` to the first one that the other track
  /// begins at `to_time` or later.
  void arrow(std::string_view name, int from_process, int from_thread, double from_time,
             int to_process, int to_thread, double to_time);
  void close();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace hero::core
