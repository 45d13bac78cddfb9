#include "support/options/ranks.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ostream>

#include "support/options/command.h"
#include "support/options/device.h"
#include "support/options/page.h"
#include "support/options/trace.h"

#include <hero/autograd/profile/profiler.h>
#include <hero/core/error.h>
#include <hero/dist/profile.h>

namespace tutorial {

using hero::dist::BackendKind;

namespace {

// reported() on all ranks of `world`; rank 0 writes.
void reported(const std::string& file, const std::string& title, const Communicator& world,
              const std::function<void()>& body) {
  if (world.rank() != 0) return body();
  tutorial::reported(file, title, [&] {
    if (page()) page()->configure("ranks", std::to_string(world.size()));
    body();
    return 0;
  });
}

// traced() on all ranks of `world`, each on its device(): one file with a process a rank, and the
// tables of rank 0.
void traced(const TraceOptions& options, const Communicator& world,
            const std::function<void()>& body) {
  if (options.file.empty()) return body();
  if (world.rank() == 0) check_writable(options);
  hero::Profiler profiler(profiler_options(options, device(), 25));
  body();
  profiler.stop();
  const hero::Profile mine = profiler.profile();
  hero::dist::save_profiles(options.file, world, mine);
  world.out() << trace_tables(mine, options) << "\n"
              << mine.table({.by = hero::ProfileBy::collective, .rows = 12});
}

}  // namespace

hero::Device device_of(const hero::dist::Communicator& rank, hero::Device wanted) {
  if (wanted.type != hero::DeviceType::cuda) return wanted;
  hero::check(rank.backend_kind() != BackendKind::mpi,
              "--device: the mpi backend moves arrays of the ",
              "host alone; give every process a GPU with --backend nccl");
  if (rank.backend_kind() != BackendKind::nccl) return wanted;
  hero::check(wanted.index == 0,
              "--device: with --backend nccl every rank has a GPU of its own, not ", wanted,
              "; use cuda");
  return rank.device();
}

int run_ranks(int argc, char** argv, const Ranked& program,
              const std::function<void(Communicator& world, const RankOptions& options)>& body) {
  RankOptions options;
  TraceOptions trace;
  std::string backend, timeout, report;
  std::optional<int64_t> ranks, steps;
  std::optional<double> link;
  bool prefix = false;
  hero::Device device = hero::kCpu;
  Command command(program.title);
  // launch() reads these by itself; here they are for --help
  command.count("--ranks", ranks, "ranks, as threads: " + std::to_string(program.ranks))
      .flag("--prefix", prefix, "every rank prints, its lines begin with its number")
      .text("--timeout", timeout, "seconds that a rank waits for the others")
      .text("--backend", backend, "what carries the messages: local (threads), mpi or nccl")
      .number("--link", link, "bytes per second that leave a rank, for ranks that are threads")
      .device(device)
      .out(options.out);
  add_trace(command, trace);
  if (program.trains) add_report(command, report);
  if (program.steps) command.count("--steps", steps, "steps of the training run");
  const auto one_rank = [&](Communicator& world) {
    const OnDevice mine(device_of(world, device));
    if (world.rank() == 0) command.make_out();  // the rank that draws
    traced(trace, world,
           [&] { reported(report, program.title, world, [&] { body(world, options); }); });
  };
  return command.run(argc, argv, [&] {
    options.link = link.value_or(0.0);
    options.steps = steps.value_or(program.steps.value_or(0));
    // [snippet: launch]
    return hero::dist::launch(argc, argv, one_rank, {.default_ranks = program.ranks});
    // [end]
  });
}

void say(const Communicator& world, const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  hero::check(length >= 0, "say: not a format: ", format);
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  world.out().write(text.data(), length);
}

std::vector<std::string> texts_of(const Communicator& world, const std::string& mine) {
  const hero::dist::Traffic counted = world.traffic();
  const auto ranks = static_cast<size_t>(world.size());
  const hero::Array lengths = hero::Array::empty({world.size()}, hero::kInt64);
  const auto length = hero::Array::full({1}, static_cast<int64_t>(mine.size()), hero::kInt64);
  world.all_gather(lengths, length);
  const std::vector<int64_t> counts = lengths.to_vector<int64_t>();
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const hero::Array all = hero::Array::empty({total}, hero::kUInt8);
  const hero::Array own =
      hero::Array::empty({counts[static_cast<size_t>(world.rank())]}, hero::kUInt8);
  if (!mine.empty()) std::memcpy(own.bytes(), mine.data(), mine.size());
  world.all_gather(all, own, {.counts = counts});
  std::vector<std::string> texts;
  const char* at = reinterpret_cast<const char*>(all.bytes());
  for (size_t i = 0; i < ranks; ++i) {
    texts.emplace_back(at, static_cast<size_t>(counts[i]));
    at += counts[i];
  }
  world.traffic() = counted;
  return texts;
}

bool everywhere(const Communicator& world, bool mine) {
  const std::vector<std::string> all = texts_of(world, mine ? "yes" : "no");
  return std::all_of(all.begin(), all.end(), [](const auto& text) { return text == "yes"; });
}

bool same_everywhere(const Communicator& world, uint64_t mine) {
  const std::vector<std::string> all = texts_of(world, std::to_string(mine));
  return std::all_of(all.begin(), all.end(), [&](const auto& text) { return text == all[0]; });
}

RankTable& RankTable::row(const std::string& label, const std::string& cell) {
  rows_.push_back({label, texts_of(world_, cell)});
  return *this;
}

RankTable& RankTable::row(const std::string& label, int64_t number) {
  return row(label, std::to_string(number));
}

void RankTable::print(const std::string& title) const {
  size_t first = std::max<size_t>(14, title.size()), width = 7;
  for (const Row& row : rows_) {
    first = std::max(first, row.label.size() + 2);
    for (const std::string& cell : row.cells) width = std::max(width, cell.size());
  }
  const auto line = [&](std::string text, const auto& cell) {
    text.resize(first, ' ');
    for (int rank = 0; rank < world_.size(); ++rank) {
      const std::string value = cell(static_cast<size_t>(rank));
      text += (rank == 0 ? "  " : " |") + std::string(width + 1 - value.size(), ' ') + value;
    }
    say(world_, "%s\n", text.c_str());
  };
  if (title.starts_with('\n')) say(world_, "\n");
  line(title.substr(title.find_first_not_of('\n')),
       [](size_t rank) { return "rank " + std::to_string(rank); });
  for (const Row& row : rows_) {
    line("  " + row.label, [&](size_t rank) { return row.cells[rank]; });
  }
}

std::string cells(const hero::Array& x) {
  if (!x.defined()) return "-";
  std::string text;
  for (const double value : x.to_vector<double>()) {
    char number[32];
    std::snprintf(number, sizeof number, "%3g", value);
    text += (text.empty() ? "" : " ") + std::string(number);
  }
  return text;
}

}  // namespace tutorial
