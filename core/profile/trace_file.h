#pragma once
// Timelines as files that Perfetto and chrome://tracing open: the Trace Event Format, as JSON.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace hero::core {

/// One "args" entry of an event, shown where it is selected.
struct TraceArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

/// Writes events one after the other, in any order of time. Times are seconds from a zero of the
/// caller's choice. A process is a rank, a thread one of its tracks (compute, a link, ..). The file
/// is written beside its place and renamed by close(), so nobody finds half of it; without close()
/// nothing is left. An Error names the file that cannot be written. One thread at a time.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  ~TraceFile();

  void name_process(int process, std::string_view name);
  void name_thread(int process, int thread, std::string_view name);
  /// Something that lasts from `begin` for `seconds`.
  void span(int process, int thread, std::string_view name, std::string_view category, double begin,
            double seconds, std::initializer_list<TraceArg> args = {});
  /// A number that changes: it is `value` from `time` on. `series` are stacked in one chart `name`.
  void counter(int process, std::string_view name, double time, std::span<const TraceArg> series);
  /// An arrow from the span of `from_thread` at `from_time` to that of `to_thread` at `to_time`.
  void arrow(std::string_view name, int from_process, int from_thread, double from_time,
             int to_process, int to_thread, double to_time);
  void close();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace hero::core
