#include "support/options/trace.h"

#include <cstdio>
#include <ostream>

#include "support/options/device.h"

#include <hero/autograd/profiler.h>
#include <hero/core/io/file.h>
#include <hero/dist/profile.h>

namespace tutorial {

namespace {

hero::ProfilerOptions options_of(const TraceOptions& options, hero::Device device, int64_t steps) {
  const bool gpu = device.type == hero::DeviceType::cuda;
  return {.steps = static_cast<int>(options.steps.value_or(steps)),
          .memory = device,
          .synchronize = gpu,
          .most_events = 200'000};
}

std::string report(const hero::Profile& profile, const TraceOptions& options) {
  return "\n" + options.file + ": " + std::to_string(profile.steps) +
         " steps; open it at https://ui.perfetto.dev\n\n" + profile.table({.rows = 12}) + "\n" +
         profile.table({.by = hero::ProfileBy::module, .rows = 12, .depth = 3});
}

// A file that cannot be written is told before the run, not after it.
void check_writable(const std::string& path) { const hero::OutputFile possible(path); }

}  // namespace

void add_trace(Command& command, TraceOptions& options) {
  command.text("--trace", options.file, "a timeline of the first steps is written to this file")
      .count("--trace-steps", options.steps, "how many steps it has: 5, on ranks 25");
}

int traced(const TraceOptions& options, hero::Device device, const std::function<int()>& body) {
  if (options.file.empty()) return body();
  check_writable(options.file);
  hero::Profiler profiler(options_of(options, device, 5));
  const int status = body();
  profiler.stop();
  profiler.save(options.file);
  std::fputs(report(profiler.profile(), options).c_str(), stdout);
  return status;
}

void traced(const TraceOptions& options, const hero::dist::Communicator& world,
            const std::function<void()>& body) {
  if (options.file.empty()) return body();
  if (world.rank() == 0) check_writable(options.file);
  hero::Profiler profiler(options_of(options, device(), 25));
  body();
  profiler.stop();
  const hero::Profile mine = profiler.profile();
  hero::dist::save_profiles(options.file, world, mine);
  world.out() << report(mine, options) << "\n"
              << mine.table({.by = hero::ProfileBy::collective, .rows = 12});
}

}  // namespace tutorial
