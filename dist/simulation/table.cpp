#include <algorithm>
#include <cstdio>
#include <set>

#include <hero/core/error.h>
#include <hero/core/profile/trace_file.h>
#include <hero/dist/simulation.h>

namespace hero::dist {

namespace {

std::string seconds_text(double seconds) {
  char text[32];
  if (seconds >= 1.0) {
    std::snprintf(text, sizeof text, "%.3g s", seconds);
  } else if (seconds >= 1e-3) {
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.3g us", seconds * 1e6);
  }
  return text;
}

std::string percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * fraction);
  return text;
}

void line(std::string& out, const std::string& name, const std::string& value,
          const std::string& note = "") {
  char text[160];
  std::snprintf(text, sizeof text, "%-34s %12s%s%s\n", name.c_str(), value.c_str(),
                note.empty() ? "" : "  ", note.c_str());
  out += text;
}

constexpr int kTracks = 7, kTracksOfAll = 4;
constexpr const char* kTrackNames[kTracks] = {
    "compute", "wait", "inside the host", "outside", "to device", "to host", "disk"};

std::string label_text(const Simulation& simulation, int32_t label) {
  return label < 0 ? "" : simulation.labels[static_cast<size_t>(label)];
}

// Whether something of the rank is offloaded.
bool moves_bytes(const ReplayRank& rank) {
  return std::any_of(rank.moved.begin(), rank.moved.end(), [](int64_t bytes) { return bytes > 0; });
}

void add_offload(std::string& out, const Simulation& step) {
  const auto peak = std::find_if(step.ranks.begin(), step.ranks.end(), [&](const ReplayRank& rank) {
    return rank.rank == step.peak_rank;
  });
  const bool offloads = std::any_of(step.ranks.begin(), step.ranks.end(), moves_bytes);
  if (!offloads || peak == step.ranks.end()) return;
  line(out, "waiting for offloaded bytes", percent(step.transfers), "of the step, per rank");
  line(out, "memory of the host, at most", bytes_text(peak->host_peak_total), "of that rank");
  for (int tag = 0; tag < kMemoryTagCount; ++tag) {
    const int64_t bytes = peak->host_peak[static_cast<size_t>(tag)];
    if (bytes == 0) continue;
    line(out, std::string("  ") + name(static_cast<MemoryTag>(tag)), bytes_text(bytes),
         "at its own peak");
  }
  if (peak->disk_peak > 0) line(out, "disk, at most", bytes_text(peak->disk_peak), "of that rank");
  for (int i = 0; i < kTransferCount; ++i) {
    const int64_t bytes = peak->moved[static_cast<size_t>(i)];
    if (bytes == 0) continue;
    line(out, std::string("moved ") + name(static_cast<Transfer>(i)), bytes_text(bytes),
         "by that rank");
  }
}

std::string text_of(Collective op, const std::string& label) {
  return std::string(name(op)) + (label.empty() ? "" : " " + label);
}

// Arrows between ranks that are both in the file.
void write_messages(core::TraceFile& file, const Simulation& simulation, size_t written) {
  std::set<int> there;
  for (size_t i = 0; i < written; ++i) there.insert(simulation.ranks[i].rank);
  for (const ReplayMessage& message : simulation.messages) {
    if (!there.count(message.from) || !there.count(message.to)) continue;
    const auto port = message.outside ? ReplaySpan::Track::outside : ReplaySpan::Track::inside;
    file.arrow(text_of(Collective::send, label_text(simulation, message.label)), message.from,
               static_cast<int>(port), message.begin, message.to,
               static_cast<int>(ReplaySpan::Track::compute), message.end);
  }
}

void write_rank(core::TraceFile& file, const Simulation& simulation, const ReplayRank& rank) {
  file.name_process(rank.rank, "rank " + std::to_string(rank.rank));
  for (int track = 0; track < kTracks; ++track) {
    const auto lies_there = [&](const ReplaySpan& span) {
      return static_cast<int>(span.track) == track;
    };
    const bool used = std::any_of(rank.spans.begin(), rank.spans.end(), lies_there);
    if (track < kTracksOfAll || used) file.name_thread(rank.rank, track, kTrackNames[track]);
  }
  const bool offloads = moves_bytes(rank);
  for (const ReplaySpan& span : rank.spans) {
    const bool computes = span.track == ReplaySpan::Track::compute;
    const std::string label = label_text(simulation, span.label);
    const std::string name =
        computes ? (label.empty() ? "compute" : label)
                 : (span.transfer ? core::name(*span.transfer) : text_of(span.op, label));
    const std::vector<core::TraceArg> args = {{computes ? "live bytes" : "bytes", span.bytes}};
    file.span(rank.rank, static_cast<int>(span.track), name, span.begin, span.end - span.begin,
              args);
    if (!computes) continue;
    file.counter(rank.rank, "memory", span.end, args);
    if (!offloads) continue;
    const std::vector<core::TraceArg> on_host = {{"live bytes", span.on_host}};
    file.counter(rank.rank, "memory of the host", span.end, on_host);
  }
}

}  // namespace

std::string Simulation::table() const {
  std::string out;
  const double mean = 1.0 / static_cast<double>(std::max<size_t>(ranks.size(), 1));
  const double whole = seconds > 0.0 ? seconds : 1.0;  // a step of nothing is no error
  double compute = 0.0;
  for (const ReplayRank& rank : ranks) compute += rank.compute * mean;
  line(out, "a step", seconds_text(seconds), "on " + std::to_string(world_size) + " ranks");
  line(out, "computing", percent(compute / whole), "of it, per rank");
  line(out, "exposed communication", percent(exposed), "waiting for collectives");
  line(out, "bubble", percent(bubble), "waiting for messages and for other ranks");
  line(out, "MFU", percent(mfu), "of the devices' peak, without recomputation");
  line(out, "HFU", percent(hfu), "of the devices' peak, with recomputation");
  char flops_text[32];
  std::snprintf(flops_text, sizeof flops_text, "%.3g", flops);
  line(out, "flops", flops_text, "of all ranks");
  line(out, "memory, at most", bytes_text(peak_bytes), "on rank " + std::to_string(peak_rank));
  for (const ReplayRank& rank : ranks) {
    if (rank.rank != peak_rank) continue;
    for (int tag = 0; tag < kMemoryTagCount; ++tag) {
      const int64_t bytes = rank.peak[static_cast<size_t>(tag)];
      if (bytes > 0)
        line(out, std::string("  ") + name(static_cast<MemoryTag>(tag)), bytes_text(bytes),
             "at its own peak");
    }
  }
  add_offload(out, *this);
  for (const auto& [axis, bytes] : bytes_by_axis) {
    line(out, "sent over " + axis, bytes_text(bytes), "per rank");
  }
  int64_t inside = 0, outside = 0;
  for (const ReplayRank& rank : ranks) {
    inside = std::max(inside, rank.sent_inside);
    outside = std::max(outside, rank.sent_outside);
  }
  line(out, "sent inside the host", bytes_text(inside), "per rank");
  line(out, "sent outside", bytes_text(outside), "per rank");
  constexpr size_t kMost = 5;
  if (!waits.empty()) out += "longest waits\n";
  for (size_t i = 0; i < std::min(waits.size(), kMost); ++i) {
    line(out, "  " + text_of(waits[i].op, label_text(*this, waits[i].label)),
         seconds_text(waits[i].seconds), percent(waits[i].seconds / whole) + " of the step");
  }
  return out;
}

void write_trace(const Simulation& simulation, const std::string& path, int most) {
  const bool kept = std::any_of(simulation.ranks.begin(), simulation.ranks.end(),
                                [](const ReplayRank& rank) { return !rank.spans.empty(); });
  check(kept, "write_trace: the simulation kept no spans; ask for them: {.spans = true}");
  core::TraceFile file(path);
  const size_t written = std::min(simulation.ranks.size(), static_cast<size_t>(std::max(most, 0)));
  for (size_t i = 0; i < written; ++i) write_rank(file, simulation, simulation.ranks[i]);
  write_messages(file, simulation, written);
  file.close();
}

}  // namespace hero::dist
