#include <string>

#include "support/catch.h"

#include <hero/nn/training/progress.h>

using namespace hero::nn;

namespace {

// A progress whose clock, width and screen are ours.
struct Bench {
  double time = 0.0;
  int width = 80;
  std::string screen;

  ProgressOptions options(ProgressStyle style, int64_t total) {
    return {.total = total,
            .style = style,
            .now = [this] { return time; },
            .write = [this](const std::string& text) { screen += text; },
            .columns = [this] { return width; }};
  }
  std::string taken() { return std::exchange(screen, ""); }
};

}  // namespace

TEST_CASE("progress rewrites one line of a terminal") {
  Bench bench;
  ProgressOptions options = bench.options(ProgressStyle::terminal, 1000);
  options.unit = "image";
  options.per_step = 64;
  Progress progress(options);
  bench.time = 1.0;
  progress.update(10, {{"loss", 2.302585}, {"lr", 1e-3}});
  CHECK(bench.taken() == "\r\033[Kstep 10/1000  1%  loss 2.303  lr 0.001  640 images/s  1:39 left");
  bench.time = 1.05;
  progress.update(11);
  CHECK(bench.taken().empty());  // too soon
  bench.time = 1.1;
  progress.update(12);
  CHECK(bench.taken() == "\r\033[Kstep 12/1000  1%  698.2 images/s  1:31 left");
  bench.time = 1.11;
  progress.update(13);
  progress.finish();
  CHECK(bench.taken() == "\r\033[Kstep 13/1000  1%  749.5 images/s  1:24 left\n");
  progress.finish();
  CHECK(bench.taken().empty());
}

TEST_CASE("progress is cut to the terminal and makes room for other text") {
  Bench bench;
  Progress progress(bench.options(ProgressStyle::terminal, 0));
  bench.width = 11;
  bench.time = 1.0;
  progress.update(123456, {{"loss", 1.0}});
  CHECK(bench.taken() == "\r\033[Kstep 12345");
  progress.clear();
  CHECK(bench.taken() == "\r\033[K");
  progress.clear();
  CHECK(bench.taken().empty());
  bench.width = 0;
  progress.update(123457);  // at once after other text
  CHECK(bench.taken() == "\r\033[Ks");
}

TEST_CASE("progress prints plain lines elsewhere, every n steps and at the end") {
  Bench bench;
  {
    ProgressOptions options = bench.options(ProgressStyle::lines, 250);
    options.start = 90;
    Progress progress(options);
    for (int64_t step = 91; step <= 250; ++step) {
      bench.time = static_cast<double>(step - 90) * 60;
      progress.update(step, {{"loss", 0.5}});
    }
  }
  CHECK(bench.taken() ==
        "step 100/250  40%  loss 0.5  0.01667 steps/s  2:30:00 left\n"
        "step 200/250  80%  loss 0.5  0.01667 steps/s  50:00 left\n"
        "step 250/250  100%  loss 0.5  0.01667 steps/s  2:40:00\n");
}

TEST_CASE("progress tells the rate of the last seconds") {
  Bench bench;
  Progress progress(bench.options(ProgressStyle::terminal, 10000));
  for (int64_t step = 1; step <= 100; ++step) {  // a slow minute and forty
    bench.time += 1.0;
    progress.update(step);
  }
  for (int64_t step = 101; step <= 300; ++step) {  // and ten times as fast
    bench.time += 0.1;
    bench.taken();
    progress.update(step);
  }
  CHECK(bench.taken() == "\r\033[Kstep 300/10000  3%  10 steps/s  16:10 left");
}

TEST_CASE("progress is silent when asked") {
  Bench bench;
  {
    Progress progress(bench.options(ProgressStyle::silent, 10));
    progress.update(10);
    progress.clear();
  }
  CHECK(bench.taken().empty());
}

TEST_CASE("durations and quantities are short") {
  CHECK(duration_text(0.4) == "0:00");
  CHECK(duration_text(59.6) == "1:00");
  CHECK(duration_text(3725) == "1:02:05");
  CHECK(duration_text(-1) == "0:00");
  CHECK(quantity_text(12.345) == "12.35");
  CHECK(quantity_text(999.94) == "999.9");
  CHECK(quantity_text(999.96) == "1k");
  CHECK(quantity_text(78125) == "78.12k");
  CHECK(quantity_text(2.5e6) == "2.5M");
  CHECK(quantity_text(2.5e12) == "2500G");
}
