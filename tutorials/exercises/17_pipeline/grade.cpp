// Grades answers to exercise 17.
#include <algorithm>
#include <cmath>
#include <functional>

#include "exercises/17_pipeline/exercise.h"
#include "exercises/support/ranks.h"
#include "support/pictures/palette.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Named, exercise::require, exercise::Run, exercise::Wrong;
using hero::Array, hero::MemoryTag, hero::Tensor;
using hero::dist::Communicator;

namespace {

constexpr int64_t kRows = 4, kWidth = 16;            // of a micro-batch
constexpr int64_t kActivation = 4 * kRows * kWidth;  // bytes
using Schedule = void (exercise::Pipeline::*)(int micro_batches);

struct Layer : hero::nn::Module {
  hero::nn::Linear& fc = add<hero::nn::Linear>("fc", kWidth, kWidth);
  Tensor forward(const Tensor& x) override { return tanh(fc(x)); }
};

// Layer `i` of the model, one for each rank.
Layer make_layer(int i) {
  hero::manual_seed(20 + static_cast<uint64_t>(i));
  return Layer();
}

// What goes into a micro-batch, and what should come out of it.
Tensor numbers(int micro_batch, uint64_t seed) {
  const hero::MemoryScope other(MemoryTag::other);
  hero::manual_seed(1000 * seed + static_cast<uint64_t>(micro_batch));
  return hero::randn({kRows, kWidth});
}
Tensor loss_of(const Tensor& y, int micro_batch) { return mse_loss(y, numbers(micro_batch, 2)); }

std::vector<Named> gradients_of(const Layer& layer, int i) {
  std::vector<Named> list;
  for (const auto& [name, p] : layer.named_parameters()) {
    list.push_back({"layer " + std::to_string(i) + ": the gradient of " + name,
                    p.grad().defined() ? p.grad().array().clone() : Array()});
  }
  return list;
}

// What one process has that takes the micro-batches one after the other: [layer].
std::vector<std::vector<Named>> alone(int layers, int micro_batches, bool last_first = false,
                                      double factor = 1.0) {
  std::vector<Layer> chain;
  for (int i = 0; i < layers; ++i) chain.push_back(make_layer(i));
  for (int at = 0; at < micro_batches; ++at) {
    const int i = last_first ? micro_batches - 1 - at : at;
    Tensor y = numbers(i, 1);
    for (Layer& layer : chain) y = layer(y);
    (factor * loss_of(y, i) / micro_batches).backward();
  }
  std::vector<std::vector<Named>> list;
  for (int i = 0; i < layers; ++i) list.push_back(gradients_of(chain[static_cast<size_t>(i)], i));
  return list;
}

// A stage that notes what it does when. Each message brings the time at which it left, and each
// piece of work takes one tick.
class Timed : public exercise::Stage {
 public:
  Timed(const Communicator& world, Layer& layer, int micro_batches)
      : world_(world), layer_(layer), micro_batches_(micro_batches) {
    layer.fc.weight.register_leaf_hook([this](const Tensor&) { work('a', backwards_++); });
  }
  int rank() const override { return world_.rank(); }
  int ranks() const override { return world_.size(); }

  Tensor rows(int i) override {
    require(is_first(), "rows() is called on rank ", rank(), ": only the first rank has them.");
    require_micro_batch(i);
    return clone(numbers(i, 1));
  }
  Tensor compute(const Tensor& x) override {
    work('0', forwards_++);
    const Tensor y = layer_(x);
    most_ = std::max(most_, hero::current_ledger().live(MemoryTag::activation));
    return y;
  }
  Tensor loss(const Tensor& y, int i) override {
    require(is_last(), "loss() is called on rank ", rank(), ": only the last rank has one.");
    require(y.defined(), "loss() of micro-batch ", i,
            " gets an undefined y: its forward has not run, or its output was given back.");
    return loss_of(y, i);
  }
  Tensor receive_input(int i) override {
    require(!is_first(), "receive_input() is called on the first rank, which has none before it.");
    require_micro_batch(i);
    return receive(i, rank() - 1, "the input");
  }
  void send_output(int i, const Tensor& y) override {
    require(!is_last(), "send_output() is called on the last rank, which has none behind it.");
    send(i, y, rank() + 1, "output");
  }
  Tensor receive_gradient(int i) override {
    require(!is_last(),
            "receive_gradient() is called on the last rank: its backward begins with the loss.");
    return receive(i, rank() + 1, "the gradient");
  }
  void send_gradient(int i, const Tensor& gradient) override {
    require(!is_first(), "send_gradient() is called on the first rank, which has none before it.");
    require(
        gradient.defined(), "Rank ", rank(), " sends an undefined gradient of micro-batch ", i,
        ": it is that of x, inputs_[i].grad(). x needs requires_grad_() before its stage computes, "
        "and backward before it is sent.");
    send(i, gradient, rank() - 1, "gradient");
  }

  void end() {
    for (hero::dist::Work& sending : sends_) sending.wait();
  }
  const std::string& line() const { return line_; }
  /// The most bytes of activations that were there when a forward had ended.
  int64_t most() const { return most_; }

 private:
  static Tensor clone(const Tensor& x) { return Tensor(x.array().clone()); }

  void require_micro_batch(int i) const {
    require(i >= 0 && i < micro_batches_, "Rank ", rank(), " begins micro-batch ", i, " of ",
            micro_batches_, ", which are counted from 0: it does no more forwards than there are ",
            "micro-batches, also where more ranks are behind it.");
  }

  void work(char first, int count) {
    line_.resize(std::max(line_.size(), ready_), '.');
    line_ += static_cast<char>(first + count);
  }
  void send(int i, const Tensor& x, int to, const char* what) {
    require(x.shape() == hero::Shape({kRows, kWidth}), "Rank ", rank(), " sends as ", what,
            " of micro-batch ", i, " a tensor of the shape ", x.shape(), ", and should ",
            hero::Shape({kRows, kWidth}), ".");
    const hero::MemoryScope scope(MemoryTag::communication);
    const auto head =
        Array::from(std::vector<int64_t>{i, static_cast<int64_t>(line_.size())}, {int64_t{2}});
    sends_.push_back(world_.send(head, to, {.async = true, .unit = "clock"}));
    sends_.push_back(world_.send(x.array().clone(), to, {.async = true, .unit = "data"}));
  }
  Tensor receive(int i, int from, const char* what) {
    const Array head = Array::empty({2}, hero::kInt64);
    world_.recv(head, from, {.unit = "clock"});
    const Array x = Array::empty({kRows, kWidth}, hero::kFloat32);
    world_.recv(x, from, {.unit = "data"});
    const std::vector<int64_t> numbers = head.to_vector<int64_t>();
    require(numbers[0] == i, "Rank ", rank(), " waits for ", what, " of micro-batch ", i,
            ", and rank ", from, " has sent that of ", numbers[0],
            ". Both go through the micro-batches from 0 on.");
    ready_ = std::max(ready_, static_cast<size_t>(numbers[1]));
    return Tensor(x);
  }

  const Communicator& world_;
  Layer& layer_;
  int micro_batches_;
  std::vector<hero::dist::Work> sends_;
  std::string line_;  // a digit is a forward, a letter a backward, a point a tick without work
  size_t ready_ = 0;  // when the last message came
  int forwards_ = 0, backwards_ = 0;
  int64_t most_ = 0;
};

struct Step {
  std::vector<std::string> lines;  // of each rank
  std::vector<Run> runs;           // notes: bytes of activations, at most and at the end
};

Step step_or_error(Schedule schedule, int ranks, int micro_batches) {
  Step result;
  result.lines.resize(static_cast<size_t>(ranks));
  result.runs = exercise::run_ranks(ranks, [&](const Communicator& world, Run& run) {
    Layer layer = make_layer(world.rank());
    Timed stage(world, layer, micro_batches);
    const auto pipeline = exercise::pipeline(stage);
    require(pipeline != nullptr, "pipeline() returns no object.");
    hero::Ledger& ledger = hero::current_ledger();
    const int64_t before = ledger.live(MemoryTag::activation);
    (pipeline.get()->*schedule)(micro_batches);
    run.notes = {stage.most() - before, ledger.live(MemoryTag::activation) - before};
    stage.end();
    run.sent = world.traffic().bytes_of_unit("data");
    run.values.push_back(gradients_of(layer, world.rank()));
    result.lines[static_cast<size_t>(world.rank())] = stage.line();
  });
  size_t ticks = 0;
  for (const std::string& line : result.lines) ticks = std::max(ticks, line.size());
  for (std::string& line : result.lines) line.resize(ticks, '.');
  return result;
}

// The same, which says why a graph is gone.
Step step(Schedule schedule, int ranks, int micro_batches) {
  try {
    return step_or_error(schedule, ranks, micro_batches);
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    require(
        text.find("needs no gradient given") == std::string::npos, "It throws an error: ", text,
        ". Only the last rank has a loss, one number. On the others it is y.backward(gradient), "
        "with what receive_gradient(i) returns.");
    if (text.find("backward ran through this graph before") == std::string::npos) throw;
    throw Wrong("It throws an error: " + text +
                ". Several micro-batches are under way at once: keep the input and the output of "
                "each, inputs_[i] and outputs_[i].");
  }
}

std::string picture(Schedule schedule, const std::vector<std::string>& lines) {
  std::vector<exercise::Lane> lanes;
  for (const std::string& line : lines)
    lanes.push_back(
        {"rank " + std::to_string(lanes.size()) + " ", line, tutorial::kForwardColours[0]});
  const bool gpipe = schedule == &exercise::Pipeline::gpipe;
  return exercise::draw(gpipe ? "gpipe" : "1f1b",
                        (gpipe ? "GPipe" : "1F1B") + std::string(": a digit is a forward, ") +
                            "a letter its backward",
                        lanes);
}

// By how much `got` is longer than `right`, where it is so in every number; 0 where it is not.
double factor(const Named& got, const Named& right) {
  const auto a = got.values.flatten().to_vector<double>(),
             b = right.values.flatten().to_vector<double>();
  double result = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::fabs(b[i]) < 1e-6) continue;
    if (result == 0.0) result = a[i] / b[i];
    if (std::fabs(a[i] / b[i] - result) > 1e-3 * std::fabs(result)) return 0.0;
  }
  return result;
}

void check_bits(Schedule schedule) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int micro_batches : {1, 2, 6}) {
      const Step got = step(schedule, ranks, micro_batches);
      const auto right = alone(ranks, micro_batches), turned = alone(ranks, micro_batches, true);
      for (size_t rank = 0; rank < right.size(); ++rank) {
        const std::vector<Named>& mine = got.runs[rank].values[0];
        const exercise::Difference difference = first_difference(mine, right[rank]);
        if (!difference.found) continue;
        std::string why;
        if (!mine[0].values.defined()) {
          why = " Its backward has not run.";
        } else if (!first_difference(mine, turned[rank]).found) {
          why =
              " Backward goes through the micro-batches from the last one to 0, so their "
              "gradients are added up in another order.";
        } else if (std::fabs(factor(mine[0], right[rank][0]) - micro_batches) < 0.01) {
          why = " It is " + std::to_string(micro_batches) +
                " times too large: the batch's loss is the mean over the micro-batches.";
        } else if (rank + 1 < right.size() && micro_batches > 1 &&
                   std::fabs(factor(mine[0], right[rank][0]) *
                                 std::pow(micro_batches, right.size() - 1 - rank) -
                             1) < 0.01) {
          why =
              " It is divided by the number of micro-batches once more on every rank: only the "
              "loss is, and the gradients that are received follow from it.";
        }
        throw Wrong("On " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + " with " +
                    std::to_string(micro_batches) + " micro-batches, " + difference.text + why);
      }
    }
  }
}

constexpr int kRanks = 4, kMicroBatches = 6;

// Messages, time and memory of a step on 4 ranks; `most(rank)` micro-batches may be under way.
std::string costs(Schedule schedule, const std::function<int(int)>& most,
                  const std::string& formula, const std::string& too_many) {
  const Step got = step(schedule, kRanks, kMicroBatches);
  const size_t ticks = got.lines[0].size(), wanted = 2 * (kMicroBatches + kRanks - 1);
  std::string held;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Run& run = got.runs[static_cast<size_t>(rank)];
    const int borders = rank == 0 || rank == kRanks - 1 ? 1 : 2;
    const int64_t sent = borders * kMicroBatches * kActivation;
    require(
        run.sent == sent, "Rank ", rank, " of 4 sends ", grouped(run.sent),
        " bytes. An activation or a gradient over each of its borders for each micro-batch are ",
        grouped(sent), ".");
    const int64_t bytes = 2 * most(rank) * kActivation;  // what went in and what came out
    require(run.notes[1] < kActivation, "Rank ", rank, " of 4 still holds ", grouped(run.notes[1]),
            " bytes of activations at the end of the step: what backward has used can go.");
    require(run.notes[0] < bytes + kActivation, "Rank ", rank, " of 4 holds up to ",
            grouped(run.notes[0]), " bytes of activations, and by the formula ", formula, " it is ",
            grouped(bytes), ".", too_many, picture(schedule, got.lines));
    held += (held.empty() ? "" : ", ") + grouped(run.notes[0]) + " (" + grouped(bytes) + ")";
  }
  require(ticks <= wanted, "The step takes ", ticks, " ticks, and 2 (m + p - 1) are ", wanted,
          ". A rank that begins with too few forwards waits for the gradient of the first one: it "
          "begins with as many as there are ranks behind it.",
          picture(schedule, got.lines));
  int idle = 0;
  for (const std::string& line : got.lines)
    idle += static_cast<int>(std::count(line.begin(), line.end(), '.'));
  const int percent = 1000 * idle / static_cast<int>(kRanks * ticks),
            by_formula = 1000 * (kRanks - 1) / (kMicroBatches + kRanks - 1);
  const auto share = [](int tenths) {
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
  };
  return std::to_string(ticks) + " ticks, of which " + share(percent) +
         " are idle, by the formula (p - 1) / (m + p - 1) " + share(by_formula) +
         ". Rank 1 sends " + grouped(got.runs[1].sent) + " bytes. The ranks hold at most " + held +
         " bytes of activations, beside the formula " + formula + "." +
         picture(schedule, got.lines);
}

constexpr Schedule kGPipe = &exercise::Pipeline::gpipe;
constexpr Schedule k1F1B = &exercise::Pipeline::one_f_one_b;
const char* const kSame =
    "with 1, 2 and 6 micro-batches, on 1, 2, 3 and 4 ranks, all gradients "
    "are bitwise those of one process.";

std::string gpipe_bits() {
  check_bits(kGPipe);
  return kSame;
}
std::string gpipe_costs() {
  return costs(
      kGPipe, [](int) { return kMicroBatches; }, "2 m", " What backward has used can go.");
}
std::string alternating_bits() {
  check_bits(k1F1B);
  return kSame;
}
std::string alternating_costs() {
  return costs(
      k1F1B, [](int rank) { return kRanks - rank; }, "2 (p - r)",
      " Too many micro-batches are under way: a rank begins with as many forwards as there are "
      "ranks behind it, and not with all.");
}

}  // namespace

int main() {
  const std::string hangs =
      "A rank waits for a message that its neighbour never sends: every rank but the last sends "
      "its output, and every rank but the first the gradient of its input, for each micro-batch.";
  const std::string alternating =
      " In 1F1B a rank begins with as many forwards as there are ranks behind it, and ends with "
      "the "
      "backwards that are left.";
  return exercise::grade("Exercise 17. A pipeline: GPipe, then 1F1B",
                         {{"GPipe", gpipe_bits, hangs},
                          {"its costs", gpipe_costs, hangs},
                          {"1F1B", alternating_bits, hangs + alternating},
                          {"its costs", alternating_costs, hangs + alternating}});
}
