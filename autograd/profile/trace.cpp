// A profile as a trace file.
#include <algorithm>
#include <limits>

#include <hero/autograd/profile/profiler.h>
#include <hero/core/profile/trace_file.h>

namespace hero {

namespace {

using core::TraceArg;
using core::TraceFile;

constexpr int kProgram = 0;  // the track of the thread itself; those behind it: its calls

void write_intervals(TraceFile& file, const Profile& p, double zero) {
  file.name_thread(p.rank, kProgram, "program");
  for (const Profile::Event& event : p.events) {
    const ProfileRow& row = p.rows[static_cast<size_t>(event.row)];
    file.span(p.rank, kProgram, row.name, event.begin - zero, event.seconds,
              {{"module", std::string_view(row.module)},
               {"phase", std::string_view(name(row.phase))},
               {"flops", event.flops},
               {"bytes", event.bytes}});
  }
}

// Calls that are under way at the same time go to different tracks: each to the first free one.
void write_calls(TraceFile& file, const Profile& p, double zero) {
  std::vector<double> free_from;
  for (const Profile::Call& call : p.calls) {
    const bool known = call.end >= 0.0;
    const double end = known ? call.end : std::max(call.begin, p.begin + p.seconds);
    const auto free = std::find_if(free_from.begin(), free_from.end(),
                                   [&](double from) { return from <= call.begin; });
    const auto lane = static_cast<int>(free - free_from.begin());
    if (free == free_from.end()) {
      free_from.push_back(end);
      file.name_thread(p.rank, kProgram + 1 + lane, "calls " + std::to_string(lane + 1));
    } else {
      *free = end;
    }
    const ProfileCollective& row = p.collectives[static_cast<size_t>(call.row)];
    file.span(p.rank, kProgram + 1 + lane, row.unit.empty() ? row.op : row.op + " " + row.unit,
              call.begin - zero, end - call.begin,
              {{"axis", std::string_view(row.axis)},
               {"unit", std::string_view(row.unit)},
               {"bytes sent", call.bytes},
               {"ended", std::string_view(known ? "known" : "not asked for")}});
  }
}

void write_memory(TraceFile& file, const Profile& p, double zero) {
  for (const Profile::Memory& sample : p.memory) {
    std::vector<TraceArg> series;
    for (size_t tag = 0; tag < kMemoryTagCount; ++tag) {
      series.push_back({name(static_cast<MemoryTag>(tag)), sample.live[tag]});
    }
    file.counter(p.rank, "memory", sample.time - zero, series);
  }
}

}  // namespace

void save_trace(const std::string& path, std::span<const Profile> profiles) {
  double zero = std::numeric_limits<double>::infinity();
  for (const Profile& p : profiles) zero = std::min(zero, p.begin);
  TraceFile file(path);
  for (const Profile& p : profiles) {
    file.name_process(p.rank, p.label);
    write_intervals(file, p, zero);
    write_calls(file, p, zero);
    write_memory(file, p, zero);
  }
  file.close();
}

}  // namespace hero
