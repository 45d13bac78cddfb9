// events FOLDER: writes metrics of a run that is resumed once, for events.py to read.
#include <cmath>
#include <limits>
#include <string>

#include <hero/nn/training/metrics.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto write = [](hero::nn::MetricsWriter& metrics, int64_t first, int64_t last, double of) {
    for (int64_t step = first; step <= last; step += 10) {
      metrics.write(
          step, {{"train/loss", of / std::sqrt(static_cast<double>(step))}, {"train/lr", 1e-3}});
    }
  };
  {
    hero::nn::MetricsWriter metrics(folder, {.now = [] { return 1000.5; }});
    write(metrics, 10, 500, 1.0);
  }
  hero::nn::MetricsWriter metrics(folder, {.resumed_step = 300, .now = [] { return 2000.25; }});
  write(metrics, 310, 400, 2.0);
  metrics.write(int64_t{1} << 40, {{"train/loss", std::numeric_limits<double>::quiet_NaN()},
                                   {"val/größe", std::numeric_limits<double>::infinity()}});
}
