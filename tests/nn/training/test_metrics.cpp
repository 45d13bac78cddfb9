#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/core/error.h>
#include <hero/nn/training/event_file.h>
#include <hero/nn/training/metrics.h>
#include <hero/nn/training/metrics_lines.h>

using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;
using namespace hero::nn;
namespace fs = std::filesystem;

namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.")) files.push_back(entry.path());
  }
  return files;
}

// Steps of all records of a folder's event files but the first of each, the version.
std::vector<int64_t> event_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& file : event_files(folder)) {
    const std::string bytes = slurp(file);
    const std::vector<EventRecord> records = read_event_records(bytes);
    size_t length = 0;
    for (size_t i = 0; i < records.size(); ++i) {
      length += records[i].bytes.size();
      if (i > 0) steps.push_back(records[i].step);
    }
    REQUIRE(length == bytes.size());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

MetricsOptions at(double time) {
  return {.now = [time] { return time; }};
}

}  // namespace

TEST_CASE("event records have the bytes of an independent writer") {
  CHECK(hex(event_file_version(1.0)) ==
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  const Metric loss{"train/loss", 0.5};
  CHECK(hex(event_scalars(2.0, 1, {&loss, 1})) ==
        "200000000000000029eda95009000000000000004010012a130a110a0a747261696e2f6c6f7373150000003fbe"
        "966704");
}

TEST_CASE("event records are read up to the first that is damaged or cut off") {
  const Metric loss{"a", 1.0};
  const std::string one = event_file_version(1.0), two = event_scalars(2.0, 300, {&loss, 1});
  const std::string all = one + two;
  REQUIRE(read_event_records(all).size() == 2);
  CHECK(read_event_records(all)[0].step == 0);
  CHECK(read_event_records(all)[1].step == 300);
  CHECK(read_event_records(all)[1].bytes == two);
  for (size_t cut = one.size(); cut < all.size(); ++cut) {
    REQUIRE(read_event_records(all.substr(0, cut)).size() == 1);
    std::string damaged = all;
    damaged[cut] = static_cast<char>(damaged[cut] ^ 1);
    REQUIRE(read_event_records(damaged).size() == 1);
  }
}

TEST_CASE("metrics are lines of JSON, whatever the numbers and names") {
  const TempDir dir;
  MetricsWriter metrics(dir / "run", at(1764000000.25));
  metrics.write(0, {{"train/loss", 2.302585}, {"lr", 1e-3}});
  const double infinity = std::numeric_limits<double>::infinity();
  metrics.write(10, {{"train/loss", std::numeric_limits<double>::quiet_NaN()},
                     {"up", infinity},
                     {"down", -infinity},
                     {"a \"name\"\n", 1e300}});
  const std::string text = slurp(dir / "run/metrics.jsonl");
  const size_t end = text.find('\n');
  CHECK(text.substr(0, end) ==
        R"({"step":0,"time":1764000000.250000,"train/loss":2.302585,"lr":0.001})");
  const auto second = nlohmann::json::parse(text.substr(end + 1));
  CHECK(second["train/loss"] == "NaN");
  CHECK(second["up"] == "Infinity");
  CHECK(second["down"] == "-Infinity");
  CHECK(second["a \"name\"\n"] == 1e300);
  CHECK(event_steps(dir / "run") == std::vector<int64_t>{0, 10});
}

TEST_CASE("names of metrics that are not UTF-8 are written with escapes, in both files") {
  const TempDir folder;
  const std::string name = "loss \xff\xfe";
  {
    MetricsWriter writer(folder / "", at(1.0));
    writer.write(1, {{name, 0.5}});
    CHECK_THROWS_WITH(writer.write(2, {{name, 0.5}, {"loss \\xff\\xfe", 1.0}}),
                      ContainsSubstring("is given twice for step 2"));
    CHECK_THROWS_WITH(
        writer.write(2, {{std::string(1 << 20, 'n'), 0.5}, {std::string(1 << 20, 'n'), 1.0}}),
        ContainsSubstring("nnn...' is given twice for step 2"));
  }
  const nlohmann::json line = nlohmann::json::parse(slurp(folder / "metrics.jsonl"));
  CHECK(line.at("loss \\xff\\xfe") == 0.5);
  const std::string events = slurp(event_files(folder / "").at(0));
  CHECK_THAT(events, ContainsSubstring("loss \\xff\\xfe"));
  CHECK_THAT(events, !ContainsSubstring(name));
}

TEST_CASE("metrics of an earlier step may come later, and a run that resumes keeps them") {
  const TempDir folder;
  {
    MetricsWriter writer(folder / "", at(1.0));
    for (const int64_t step : {5, 9, 3, 5}) writer.write(step, {{"loss", 1.0}});
  }
  MetricsOptions resumed = at(2.0);
  resumed.resumed_step = 5;
  { MetricsWriter writer(folder / "", resumed); }
  std::vector<int64_t> steps;
  std::istringstream lines(slurp(folder / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line).at("step"));
  }
  CHECK(steps == std::vector<int64_t>{5, 3, 5});
  CHECK(event_steps(folder / "") == std::vector<int64_t>{3, 5, 5, 6});  // and that of the restart
}

TEST_CASE("a run that resumes drops the metrics beyond its checkpoint") {
  const TempDir dir;
  const std::string run = dir / "run", lines = run + "/metrics.jsonl";
  {
    MetricsWriter metrics(run);
    for (int step = 10; step <= 50; step += 10) metrics.write(step, {{"loss", 1.0 / step}});
  }
  spill(lines, slurp(lines) + R"({"step":60,"ti)");  // a process that was killed as it wrote
  const std::string file = event_files(run)[0];
  spill(file, slurp(file) + "half a record");
  {
    MetricsWriter metrics(run, {.resumed_step = 30});
    metrics.write(40, {{"loss", 7.0}});
  }
  std::vector<int64_t> steps;
  std::istringstream text(slurp(lines));
  for (std::string line; std::getline(text, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  CHECK(steps == std::vector<int64_t>{10, 20, 30, 40});
  CHECK(event_files(run).size() == 2);
  // 31 is the note by which a TensorBoard that is open forgets what it had read
  CHECK(event_steps(run) == std::vector<int64_t>{10, 20, 30, 31, 40});
}

TEST_CASE("metrics of two runs are not mixed, and bad lines are not thrown away") {
  const TempDir dir;
  { MetricsWriter(dir / "run").write(1, {{"loss", 1.0}}); }
  CHECK_THROWS_WITH(MetricsWriter(dir / "run"), ContainsSubstring("metrics of another run"));
  spill(dir / "run/metrics.jsonl", "{\"step\":1}\nnonsense\n{\"step\":3}\n");
  CHECK_THROWS_WITH(MetricsWriter(dir / "run", {.resumed_step = 1}),
                    ContainsSubstring("line 2 is not a line of metrics"));
  CHECK(slurp(dir / "run/metrics.jsonl") == "{\"step\":1}\nnonsense\n{\"step\":3}\n");
  spill(dir / "file", "");
  CHECK_THROWS_WITH(MetricsWriter(dir / "file"), ContainsSubstring("cannot make the folder"));
}

TEST_CASE("a run resumes from a step that is 0 or more, and nothing is dropped otherwise") {
  const TempDir dir;
  const std::string folder = dir / "run";
  {
    MetricsWriter writer(folder);
    for (int64_t step = 1; step < 9; ++step) writer.write(step, {{"loss", 1.0}});
  }
  const std::string before = slurp(folder + "/metrics.jsonl");
  for (const int64_t step : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    CHECK_THROWS_WITH(MetricsWriter(folder, {.resumed_step = step}),
                      ContainsSubstring("metrics: resumed_step is the step of a checkpoint"));
  }
  CHECK(slurp(folder + "/metrics.jsonl") == before);
  // steps may come again, as those of a validation do; each is dropped by its own number
  {
    MetricsWriter writer(folder, {.resumed_step = 3});
    writer.write(4, {{"loss", 1.0}});
    writer.write(4, {{"validation", 2.0}});
    writer.write(2, {{"late", 3.0}});
  }
  MetricsWriter writer(folder, {.resumed_step = 3});
  const std::string kept = slurp(folder + "/metrics.jsonl");
  CHECK(std::count(kept.begin(), kept.end(), '\n') == 4);
  CHECK_THAT(kept, ContainsSubstring("\"late\"") && !ContainsSubstring("\"validation\""));
}

TEST_CASE("metrics need a step and names of their own") {
  const TempDir dir;
  MetricsWriter metrics(dir / "run", {.tensorboard = false});
  CHECK(event_files(dir / "run").empty());
  CHECK_THROWS_WITH(metrics.write(-1, {}), ContainsSubstring("0 or more: -1"));
  CHECK_THROWS_WITH(metrics.write(1, {{"step", 1.0}}),
                    ContainsSubstring("cannot be called 'step'"));
  CHECK_THROWS_WITH(metrics.write(1, {{"", 1.0}}), ContainsSubstring("cannot be called ''"));
  CHECK_THROWS_WITH(metrics.write(1, {{"a", 1.0}, {"b", 1.0}, {"a", 2.0}}),
                    ContainsSubstring("'a' is given twice"));
  CHECK(slurp(dir / "run/metrics.jsonl").empty());
}

TEST_CASE("a line that does not fit on the disk leaves the lines before it, and the run goes on") {
  const TempDir dir;
  const std::string run = dir / "run", lines = run + "/metrics.jsonl";
  MetricsWriter metrics(run, at(1.0));
  for (int step = 1; step <= 5; ++step) metrics.write(step, {{"loss", 1.0}});
  const size_t lines_bytes = slurp(lines).size(), event_bytes = slurp(event_files(run)[0]).size();
  for (size_t room = 0; room < 45; ++room) {  // lines first, then events, are the ones that stop
    for (const size_t limit : {lines_bytes + room, event_bytes + room}) {
      const hero_test::SmallDisk disk(limit);
      const std::string long_name(40, 'x');
      CHECK_THROWS_WITH(metrics.write(6, {{long_name, 1.0}}), ContainsSubstring("cannot append"));
    }
    CHECK(slurp(lines).size() == lines_bytes);
    CHECK(slurp(event_files(run)[0]).size() == event_bytes);
  }
  metrics.write(7, {{"loss", 2.0}});
  CHECK(event_steps(run) == std::vector<int64_t>{1, 2, 3, 4, 5, 7});
  const std::string whole = slurp(lines);
  CHECK(kept_lines(whole, 100, lines).text == whole);
  MetricsWriter(run, {.resumed_step = 7, .now = [] { return 2.0; }}).write(8, {{"loss", 3.0}});
  CHECK(slurp(lines).starts_with(whole));
}

TEST_CASE("metrics that end anywhere in a line are gone on with from the line before") {
  const std::string text =
      "{\"step\":1,\"time\":1.5,\"a\":0.25}\n{\"step\":2,\"time\":2.5,\"a\":\"NaN\"}\n";
  const size_t first = text.find('\n') + 1;
  for (size_t end = 0; end <= text.size(); ++end) {
    CAPTURE(end);
    const KeptLines kept = kept_lines(text.substr(0, end), 9, "m");
    // A line that lacks nothing but its end is a line.
    const size_t whole = end + 1 >= text.size() ? text.size() : end + 1 >= first ? first : 0;
    CHECK(kept.text == text.substr(0, whole));
    CHECK(kept.torn_bytes == (end > whole ? end - whole : 0));
  }
  for (const std::string& torn :
       {std::string("{\"step\":3,\"ti\n"), std::string("\n"), std::string(40, '\0'),
        std::string("null"), std::string("{\"step\":1e300}\n"), std::string("{\"step\":\"3\"}"),
        "{\"step\":3,\"a\":" + std::string(100000, '[')}) {
    const KeptLines kept = kept_lines(text + torn, 9, "m");
    CHECK(kept.text == text);
    CHECK(kept.torn_bytes == torn.size());
    CHECK_THROWS_WITH(kept_lines(torn + "\n" + text, 9, "m\x1b[31m"),
                      ContainsSubstring("line 1 is not") && !ContainsSubstring("\x1b"));
  }
  CHECK(kept_lines(text, 1, "m").text == text.substr(0, first));
  CHECK(kept_lines("", 1, "m").text.empty());
}
