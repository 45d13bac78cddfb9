#include "support/lessons/pipeline.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <optional>

#include "support/pictures/plot.h"

#include <hero/autograd/sharding/partition.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/nn/gpt.h>

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
  figure.x_range(1, x.back()).y_range(0, 1);
  figure.curve("(p - 1) / (m + p - 1)", formula, 1, x.back()).points("measured", x, y);
  figure.save(folder, "13_pipeline");
}

namespace {

// [rank]: the boxes of a cut matrix that it holds, each as first row and column, rows and columns.
using Boxes = std::vector<std::vector<std::array<int64_t, 4>>>;

Boxes boxes_of_ranks(const Communicator& world, const hero::Tensor& leaf) {
  std::vector<int64_t> mine;
  const hero::Partition* part = hero::partition(leaf);  // null: whole
  for (const hero::Box& box : part ? part->boxes : std::vector<hero::Box>{{{0, 0}, leaf.shape()}}) {
    for (const hero::Shape* numbers : {&box.offset, &box.extent}) {
      mine.insert(mine.end(), {(*numbers)[0], (*numbers)[1]});
    }
  }
  const auto count = static_cast<int64_t>(mine.size());
  const auto all = hero::Array::empty({world.size() * count}, hero::kInt64);
  world.all_gather(all, hero::Array::from(mine, {count}), {.unit = "boxes"});
  const auto numbers = all.to_vector<int64_t>();
  Boxes boxes(static_cast<size_t>(world.size()));
  for (size_t at = 0; at < numbers.size(); at += 4) {
    boxes[at / mine.size()].push_back(
        {numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]});
  }
  return boxes;
}

}  // namespace

void draw_slices(const Communicator& world, const std::string& folder) {
  constexpr const char* kColours[] = {"#7db7e0", "#f0a860", "#9fca8f", "#d8a0cc",
                                      "#c3def2", "#f8d5ae", "#d2e6ca", "#ecd2e6"};
  struct Place {
    const char* path;
    const char* title;
    double x, y;  // of the upper left corner, in widths of the model
  };
  constexpr Place kPlaces[] = {
      {"transformer.h.0.attn.c_attn.weight", "attention:\nq, k, v", 0.6, 0.0},
      {"transformer.h.0.mlp.c_fc.weight", "feed-forward,\nfirst", 2.9, 0.0},
      {"transformer.wte.weight", "vocabulary", 5.2, 0.0},
      {"transformer.h.0.attn.c_proj.weight", "attention:\noutput", 0.6, 5.0},
      {"transformer.h.0.mlp.c_proj.weight", "feed-forward, second", 2.5, 5.0}};
  const int64_t width = 8 * world.size();
  std::optional<hero::nn::DeviceScope> meta(hero::kMeta);
  hero::nn::GPT model({.vocab_size = 3 * width,
                       .block_size = 8,
                       .n_layer = 1,
                       .n_head = world.size(),
                       .n_embd = width});
  meta.reset();
  hero::dist::tensor_parallel(model, world);
  Figure figure("What " + std::to_string(world.size()) + " ranks hold of a block's matrices", "",
                "");
  figure.label("[outputs, inputs]: outputs ↓, inputs →", 3.3, -6.4, "#555555");
  for (const Place& place : kPlaces) {
    const Boxes boxes = boxes_of_ranks(world, model.get_parameter(place.path));
    double across = 0.0;
    for (size_t rank = 0; rank < boxes.size(); ++rank) {
      for (const auto& box : boxes[rank]) {
        const auto scaled = [&](size_t i) {
          return static_cast<double>(box[i]) / static_cast<double>(width);
        };
        figure.box(place.x + scaled(1), -place.y - scaled(0) - scaled(2), scaled(3), scaled(2),
                   kColours[rank % std::size(kColours)], std::to_string(rank));
        across = std::max(across, scaled(1) + scaled(3));
      }
    }
    figure.label(place.title, place.x + across / 2, 0.35 - place.y, "#333333");
  }
  if (world.rank() != 0) return;
  figure.x_range(-0.1, 6.7).y_range(-6.6, 0.8).height(790).bare();
  figure.save(folder, "13_slices");
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
