#include "pipeline.h"

#include <algorithm>
#include <cstdio>

#include "plot.h"

namespace tutorial {

void Schedule::send(const hero::Tensor& x, int to) {
  const auto clock = hero::Array::full({1}, static_cast<int64_t>(line_.size()), hero::kInt64);
  sends_.push_back(world_.send(clock, to, {.async = true, .unit = "clock"}));
  sends_.push_back(world_.send(x.array(), to, {.async = true, .unit = "data"}));
}

void Schedule::receive(const hero::Tensor& x, int from) {
  const auto clock = hero::Array::empty({1}, hero::kInt64);
  world_.recv(clock, from, {.unit = "clock"});
  world_.recv(x.array(), from, {.unit = "data"});
  ready_ = clock.item<int64_t>();
}

void Schedule::work(char what) {
  line_.resize(std::max(line_.size(), static_cast<size_t>(ready_)), '.');
  line_ += what;
}

void Schedule::end() {
  for (auto& send : sends_) send.wait();
  for (const std::string& line : texts_of(world_, line_)) {
    ticks_ = std::max(ticks_, static_cast<int64_t>(line.size()));
  }
  line_.resize(static_cast<size_t>(ticks_), '.');
}

void Schedule::print() const {
  int rank = 0;
  for (const std::string& line : texts_of(world_, line_)) {
    say(world_, "  rank %d ", rank++);
    for (const char tick : line) say(world_, " %c", tick);
    say(world_, "\n");
  }
}

double Schedule::idle() const {
  return static_cast<double>(std::count(line_.begin(), line_.end(), '.')) /
         static_cast<double>(ticks_);
}

void show_bubbles(const Communicator& world, const std::vector<Bubble>& bubbles,
                  const std::string& folder) {
  const double p = world.size();
  const auto formula = [p](double m) { return (p - 1) / (m + p - 1); };
  say(world, "micro-batches  ticks   idle  formula  gradients\n");
  Values x, y;
  for (const Bubble& bubble : bubbles) {
    say(world, "%13d %6d %5.1f%% %7.1f%%  %s\n", bubble.micro_batches, bubble.ticks,
        100 * bubble.idle, 100 * formula(bubble.micro_batches),
        bubble.same ? "the same bits" : "they differ");
    x.push_back(bubble.micro_batches);
    y.push_back(bubble.idle);
  }
  if (world.rank() != 0) return;
  Figure figure("The bubble of a pipeline", "micro-batches m", "share of the time without work");
  figure.legend("top right").x_range(1, x.back()).y_range(0, 1);
  figure.curve("(p - 1) / (m + p - 1)", formula, 1, x.back()).points("measured", x, y);
  figure.save(folder, "13_pipeline");
}

std::string matrix(const hero::Tensor& x) {
  std::string text;
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      char number[32];
      std::snprintf(number, sizeof number, "%g", x[i][j].item());
      text += (j > 0 ? " " : i > 0 ? "; " : "") + std::string(number);
    }
  }
  return "[" + text + "]";
}

double distance(const hero::Tensor& a, const hero::Tensor& b) {
  return (amax(abs(a - b)) / amax(abs(b))).item();
}

}  // namespace tutorial
