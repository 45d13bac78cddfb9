// Report: what lies in the file, and when it is written.
#include <cmath>
#include <filesystem>
#include <limits>

#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/core/array.h>
#include <hero/core/io/printable.h>
#include <hero/core/ledger.h>
#include <hero/core/version.h>
#include <hero/nn/training/report.h>
#include <hero/nn/training/report/series.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp;
using hero_test::TempDir;

TEST_CASE("report: the file is there at once, not written too often, and tells how it ended") {
  const TempDir folder;
  const std::string path = folder / "run.html";
  double time = 100.0;
  const nn::ReportOptions options = {.title = "A run", .now = [&] { return time; }};
  {
    nn::Report report(path, options);
    CHECK_THAT(slurp(path), ContainsSubstring(">running</span>, step 0"));
    CHECK_THAT(slurp(path), ContainsSubstring("http-equiv=\"refresh\""));
    report.write(1, {{"loss", 0.5}});
    CHECK_THAT(slurp(path), ContainsSubstring("step 0"));  // no five seconds have passed
    time += 6.0;
    report.write(2, {{"loss", 0.25}});
    CHECK_THAT(slurp(path), ContainsSubstring(">running</span>, step 2, 6.0 s"));
    CHECK_THAT(slurp(path), ContainsSubstring("loss <b>0.25</b>"));
    CHECK_THAT(slurp(path), ContainsSubstring("steps a second <b>0.1667</b>"));
  }
  CHECK_THAT(slurp(path), ContainsSubstring(">stopped</span>"));
  {
    nn::Report report(path, options);
    report.fail("loss: <NaN>");
  }
  CHECK_THAT(slurp(path), ContainsSubstring(">failed</span>"));
  CHECK_THAT(slurp(path), ContainsSubstring("loss: &lt;NaN&gt;"));
  CHECK_THAT(slurp(path), !ContainsSubstring("refresh"));
  {
    nn::Report report(path, options);
    report.configure("rate", "1");
    report.configure("rate", "2");
    report.finish();
  }
  CHECK_THAT(slurp(path), ContainsSubstring(">finished</span>"));
  CHECK_THAT(slurp(path), ContainsSubstring("<th>rate</th><td>2</td>"));
  CHECK_THAT(slurp(path), !ContainsSubstring("<td>1</td>"));
}

TEST_CASE("report: memory by tag is that of the thread's ledger") {
  const TempDir folder;
  Ledger ledger;
  const LedgerScope scope(ledger);
  const MemoryScope tag(MemoryTag::optimizer);
  const Array held = Array::zeros({500'000});
  nn::Report report(folder / "run.html");
  report.write(1, {});
  report.finish();
  CHECK_THAT(slurp(folder / "run.html"), ContainsSubstring("<h2>memory, MB</h2>"));
  CHECK_THAT(slurp(folder / "run.html"), ContainsSubstring("optimizer <b>2</b>"));
}

TEST_CASE("report: a million steps are a file of bounded size, and no number is told") {
  const TempDir folder;
  const std::string path = folder / "run.html";
  nn::Report report(path, {.every = 1e9});
  for (int64_t step = 0; step < 1'000'000; ++step) {
    report.write(step, {{"loss", step == 7 ? std::nan("") : std::sin(static_cast<double>(step))}});
  }
  report.finish();
  CHECK(std::filesystem::file_size(path) < 300'000);
  CHECK_THAT(slurp(path), ContainsSubstring("NaN or infinite: 1, first at step 7"));
}

TEST_CASE("report: merged points keep the least, the largest and the mean") {
  nn::ReportSeries series;
  double sum = 0.0;
  constexpr int64_t kSteps = 100'000;
  for (int64_t step = 0; step < kSteps; ++step) {
    const double value = static_cast<double>((step * 7919) % 1000);
    sum += value;
    series.add(step, value);
  }
  series.add(kSteps, std::numeric_limits<double>::infinity());
  CHECK(series.points().size() <= nn::ReportSeries::kMost);
  CHECK(series.points().size() > nn::ReportSeries::kMost / 4);
  double least = 1e9, largest = -1e9, all = 0.0;
  int64_t count = 0, before = -1;
  for (const auto& point : series.points()) {
    CHECK(point.step > before);
    before = point.step;
    least = std::min(least, point.least);
    largest = std::max(largest, point.largest);
    all += point.sum;
    count += point.count;
  }
  CHECK(count == kSteps);
  CHECK(before == kSteps - 1);
  CHECK(least == 0.0);
  CHECK(largest == 999.0);
  CHECK(all == sum);
  CHECK(series.no_numbers() == 1);
  CHECK(series.first_no_number() == kSteps);
}

TEST_CASE("report: a rate in what a step has, versions, and pictures") {
  const TempDir folder;
  const std::string path = folder / "run.html";
  double time = 0.0;
  nn::Report report(path, {.now = [&] { return time; }, .unit = "token", .per_step = 64});
  report.write(1, {});
  time = 2.0;
  report.write(2, {});
  report.image("a <picture>", full({2, 2}, 0.25));
  report.finish();
  CHECK_THAT(slurp(path), ContainsSubstring("tokens a second <b>32</b>"));
  CHECK_THAT(slurp(path), ContainsSubstring(std::string("<th>Hero</th><td>") + kVersion));
  CHECK_THAT(slurp(path), ContainsSubstring("alt=\"a &lt;picture&gt;\""));
  CHECK_THAT(slurp(path), ContainsSubstring("src=\"data:image/png;base64,iVBORw0KGgo"));
  CHECK_THROWS_WITH(report.image("", zeros({2, 2, 2})), ContainsSubstring("it must be [H, W]"));
  CHECK_THROWS_WITH(report.image("", zeros({0, 2})),
                    ContainsSubstring("a picture of shape [0, 2]"));
  CHECK_THROWS_WITH(report.image("", zeros({2, 2}, {.dtype = kInt64})),
                    ContainsSubstring("a picture of int64"));
  CHECK_THROWS_WITH(report.image("", zeros({300, 300})), ContainsSubstring("65536 pixels"));
  CHECK_THROWS_WITH(report.image("last", Tensor()),
                    ContainsSubstring("report: the picture 'last' is undefined"));
  CHECK_THROWS_WITH(nn::Report(path, {.per_step = 0.0}), ContainsSubstring("per_step"));
}

TEST_CASE("report: text that is not UTF-8 is on the page with escapes") {
  const TempDir folder;
  nn::Report report(folder / "run.html", {.title = "title \xff"});
  report.write(1, {{"loss \xfe", 1.0}});
  report.sample("sample \xfd", "text \xc3\xa9 \xc3");
  report.configure("key \xfc", "value \xfb");
  report.finish();
  const std::string page = slurp(folder / "run.html");
  for (const char* text : {"title \\xff", "loss \\xfe", "sample \\xfd", "text \xc3\xa9 \\xc3",
                           "key \\xfc", "value \\xfb"}) {
    CHECK_THAT(page, ContainsSubstring(text));
  }
  CHECK(utf8_text(page) == page);
}

TEST_CASE("report: 40 pictures are the last 32, and the file is bounded") {
  const TempDir folder;
  const std::string path = folder / "run.html";
  nn::Report report(path, {.every = 1e9});
  for (int i = 0; i < 40; ++i) report.image("no. " + std::to_string(i), rand({28, 28}));
  report.finish();
  CHECK_THAT(slurp(path), !ContainsSubstring("no. 7\""));
  CHECK_THAT(slurp(path), ContainsSubstring("no. 8\""));
  CHECK(std::filesystem::file_size(path) < 60'000);
}

TEST_CASE("report: what is wrong is one line, and a full disk ends no run") {
  const TempDir folder;
  CHECK_THROWS_WITH(nn::Report(folder / "no/such/run.html"), ContainsSubstring("run.html"));
  CHECK_THROWS_WITH(nn::Report(folder / "run.html", {.every = -1}),
                    ContainsSubstring("report: every"));
  std::filesystem::create_directory(folder / "runs");
  nn::Report report(folder / "runs/run.html", {.every = 0.0});
  report.write(3, {{"loss", 1.0}});
  CHECK_THROWS_WITH(report.write(2, {{"loss", 1.0}}),
                    ContainsSubstring("step 2 comes after step 3"));
  std::filesystem::remove_all(folder / "runs");
  report.write(4, {{"loss", 1.0}});  // says so on stderr, once
  report.write(5, {{"loss", 1.0}});
  std::filesystem::create_directory(folder / "runs");
  report.write(6, {{"loss", 1.0}});
  CHECK_THAT(slurp(folder / "runs/run.html"), ContainsSubstring("step 6"));
}

}  // namespace
