#include "support/options/trace.h"

#include <cstdio>

#include <hero/core/io/file.h>

namespace tutorial {

hero::ProfilerOptions profiler_options(const TraceOptions& options, hero::Device device,
                                       int64_t steps) {
  const bool gpu = device.type == hero::DeviceType::cuda;
  return {.steps = static_cast<int>(options.steps.value_or(steps)),
          .memory = device,
          .synchronize = gpu,
          .most_events = 200'000};
}

std::string trace_tables(const hero::Profile& profile, const TraceOptions& options) {
  return "\n" + options.file + ": " + std::to_string(profile.steps) +
         " steps; open it at https://ui.perfetto.dev\n\n" + profile.table({.rows = 12}) + "\n" +
         profile.table({.by = hero::ProfileBy::module, .rows = 12, .depth = 3});
}

void check_writable(const TraceOptions& options) { const hero::OutputFile possible(options.file); }

void add_trace(Command& command, TraceOptions& options) {
  command.text("--trace", options.file, "a timeline of the first steps is written to this file")
      .count("--trace-steps", options.steps, "how many steps it has: 5, on ranks 25");
}

int traced(const TraceOptions& options, hero::Device device, const std::function<int()>& body) {
  if (options.file.empty()) return body();
  check_writable(options);
  hero::Profiler profiler(profiler_options(options, device, 5));
  const int status = body();
  profiler.stop();
  profiler.save(options.file);
  std::fputs(trace_tables(profiler.profile(), options).c_str(), stdout);
  return status;
}

}  // namespace tutorial
