// Grades answers to exercise 16.
#include "exercises/support/grade.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "exercises/16_prefetch/exercise.h"
#include "support/pictures/palette.h"

using exercise::Action, exercise::Do, exercise::require, exercise::Wrong;

namespace {

// A network on a rank.
struct Machine {
  std::vector<double> forward;    // milliseconds of each layer; backward takes twice as long
  std::vector<double> megabytes;  // of each layer
  double rate;                    // megabytes that the link sends in a millisecond
  double memory;                  // megabytes, for whole layers and gradients
};

std::string ms(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", value);
  return text;
}

std::string mb(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", value);
  return text;
}

std::string name(const Action& action) {
  const char* names[] = {"gather", "free", "forward", "backward", "reduce"};
  return std::string(names[static_cast<size_t>(action.what)]) + "(" + std::to_string(action.layer) +
         ")";
}

struct Span {
  Do what;
  int layer;
  double begin, end;
};

// A step as it is played.
class Step {
 public:
  explicit Step(const Machine& machine)
      : machine_(machine),
        layers_(static_cast<int>(machine.forward.size())),
        layer_(machine.forward.size()) {}

  void play(const std::vector<Action>& list) {
    for (const Action& action : list) {
      require(action.layer >= 0 && action.layer < layers_, name(action),
              " is no layer: there are 0 ... ", layers_ - 1, ".");
      play(action);
    }
    require(forwards_ == layers_, "The step ends, and forward(", forwards_, ") has not come.");
    require(backwards() == 0, "The step ends, and backward(", backwards() - 1, ") has not come.");
    for (int i = 0; i < layers_; ++i) {
      const Layer& layer = layer_[static_cast<size_t>(i)];
      require(layer.reduced, "The gradients of layer ", i, " are never added up: reduce(", i,
              ") is missing.");
      require(!layer.whole, "Layer ", i, " is still whole at the end of the step: free(", i,
              ") is missing.");
    }
    for (const Span& span : spans_) {
      if (span.what == Do::reduce) wait(span, span.end);
    }
  }

  double time() const { return now_; }
  double most() const { return most_; }
  int gathers() const { return gathers_; }
  int messages() const { return gathers_ + layers_; }
  /// The messages for which the processor waited, and for how many milliseconds.
  const std::vector<std::pair<std::string, double>>& waits() const { return waits_; }

  /// For how many milliseconds it waited for memory, and the first action that did.
  double waited_for_memory() const { return for_memory_; }
  const std::optional<Action>& for_memory_of() const { return for_memory_of_; }

  // Four lanes, in which a digit is a layer.
  std::string picture(const std::string& network) const {
    constexpr int kColumns = 76;
    std::vector<exercise::Lane> lanes = {{"forward", "", tutorial::kForwardColours[0]},
                                         {"backward", "", tutorial::kBackwardColours[0]},
                                         {"gather", "", tutorial::kGatherColour},
                                         {"reduce", "", tutorial::kReduceColour}};
    constexpr Do kWhat[] = {Do::forward, Do::backward, Do::gather, Do::reduce};
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane].row.assign(kColumns, '.');
      for (const Span& span : spans_) {
        if (span.what != kWhat[lane]) continue;
        for (int c = 0; c < kColumns; ++c) {
          const double middle = (c + 0.5) * now_ / kColumns;
          if (middle >= span.begin && middle < span.end)
            lanes[lane].row[static_cast<size_t>(c)] = static_cast<char>('0' + span.layer);
        }
      }
    }
    std::string file = network;
    std::replace(file.begin(), file.end(), ' ', '_');
    return exercise::draw(file, network + ": a step of " + ms(now_), lanes);
  }

 private:
  struct Layer {
    bool whole = false, computed = false, reduced = false;
    Span came = {Do::gather, 0, 0.0, 0.0};
  };

  void wait(const Span& message, double until) {
    if (until <= now_) return;
    waits_.emplace_back(name({message.what, message.layer}), until - now_);
    now_ = until;
  }

  Span send(Do what, int layer) {
    const double begin = std::max(now_, link_free_);
    link_free_ = begin + machine_.megabytes[static_cast<size_t>(layer)] / machine_.rate;
    spans_.push_back({what, layer, begin, link_free_});
    return spans_.back();
  }

  // Takes memory; waits for gradients that are leaving where there is too little.
  void take(const Action& action) {
    const double wanted = machine_.megabytes[static_cast<size_t>(action.layer)];
    const auto leave = [&] {
      while (!leaving_.empty() && leaving_.front().end <= now_) {
        held_ -= machine_.megabytes[static_cast<size_t>(leaving_.front().layer)];
        leaving_.erase(leaving_.begin());
      }
    };
    leave();
    while (held_ + wanted > machine_.memory) {
      require(!leaving_.empty(), name(action), " finds no memory: ", mb(held_), " are taken, ",
              mb(wanted), " are needed for ",
              action.what == Do::gather ? "the whole layer" : "the gradients",
              ", and the limit is ", mb(machine_.memory), ".", holders());
      for_memory_ += std::max(0.0, leaving_.front().end - now_);
      if (!for_memory_of_) for_memory_of_ = action;
      wait(leaving_.front(), leaving_.front().end);
      leave();
    }
    held_ += wanted;
    most_ = std::max(most_, held_);
  }

  // Whose memory is taken.
  std::string holders() const {
    std::string whole, gradients;
    for (int i = 0; i < layers_; ++i) {
      const Layer& layer = layer_[static_cast<size_t>(i)];
      if (layer.whole) whole += " " + std::to_string(i);
      if (layer.computed && !layer.reduced) gradients += " " + std::to_string(i);
    }
    std::string text;
    if (!whole.empty()) text += " Whole are the layers" + whole + ".";
    if (!gradients.empty())
      text += " Gradients that no reduce() sends wait of the layers" + gradients + ".";
    return text;
  }

  void play(const Action& action) {
    const auto i = static_cast<size_t>(action.layer);
    Layer& layer = layer_[i];
    switch (action.what) {
      case Do::gather:
        require(!layer.whole, name(action), " comes where layer ", action.layer,
                " is whole already.");
        take(action);
        layer.came = send(Do::gather, action.layer);
        layer.whole = true;
        ++gathers_;
        return;
      case Do::free:
        require(layer.whole, name(action), " comes where layer ", action.layer, " is not whole.");
        require(layer.came.end <= now_, name(action), " comes while layer ", action.layer,
                " is still on its way.");
        layer.whole = false;
        held_ -= machine_.megabytes[i];
        return;
      case Do::forward:
        require(action.layer == forwards_, name(action), " comes where forward(", forwards_,
                ") should.");
        compute(action, machine_.forward[i]);
        ++forwards_;
        return;
      case Do::backward:
        require(forwards_ == layers_, name(action), " comes where forward has not ended.");
        require(action.layer == backwards() - 1, name(action), " comes where backward(",
                backwards() - 1, ") should: backward goes from the last layer to the first.");
        require(layer.whole, name(action), " comes where layer ", action.layer,
                " is not whole: gather(", action.layer, ") has to come before it.");
        take(action);
        compute(action, 2 * machine_.forward[i]);
        backwards_ = action.layer;
        layer.computed = true;
        return;
      case Do::reduce:
        require(layer.computed, name(action), " comes before the gradients of layer ", action.layer,
                " are computed.");
        require(!layer.reduced, name(action), " comes twice.");
        leaving_.push_back(send(Do::reduce, action.layer));
        layer.reduced = true;
        return;
    }
    throw Wrong("An action is none of gather, free, forward, backward and reduce.");
  }

  int backwards() const { return backwards_ < 0 ? layers_ : backwards_; }

  void compute(const Action& action, double duration) {
    const Layer& layer = layer_[static_cast<size_t>(action.layer)];
    require(layer.whole, name(action), " comes where layer ", action.layer,
            " is not whole: gather(", action.layer, ") has to come before it.");
    wait(layer.came, layer.came.end);
    spans_.push_back({action.what, action.layer, now_, now_ + duration});
    now_ += duration;
  }

  Machine machine_;
  int layers_, forwards_ = 0, backwards_ = -1, gathers_ = 0;
  std::vector<Layer> layer_;
  std::vector<Span> spans_, leaving_;  // gradients whose reduce is under way
  std::vector<std::pair<std::string, double>> waits_;
  std::optional<Action> for_memory_of_;
  double for_memory_ = 0.0;
  double now_ = 0.0, link_free_ = 0.0, held_ = 0.0, most_ = 0.0;
};

// The schedule with which an answer is compared.
std::vector<Action> ours(int layers) {
  std::vector<Action> list = {exercise::gather(0)};
  for (int i = 0; i < layers; ++i) {
    if (i + 1 < layers) list.push_back(exercise::gather(i + 1));
    list.push_back(exercise::forward(i));
    if (i + 1 < layers) list.push_back(exercise::free(i));
  }
  for (int i = layers - 1; i >= 0; --i) {
    if (i > 0) list.push_back(exercise::gather(i - 1));
    list.push_back(exercise::backward(i));
    list.push_back(exercise::free(i));
    list.push_back(exercise::reduce(i));
  }
  return list;
}

std::string play(const char* network, const Machine& machine) {
  const int layers = static_cast<int>(machine.forward.size());
  Step step(machine), best(machine);
  best.play(ours(layers));
  step.play(exercise::schedule(layers));
  constexpr int kShown = 4;  // of the messages for which the processor waits
  std::string exposed;
  double waited = 0.0;
  int count = 0;
  for (const auto& [message, time] : step.waits()) {
    if (++count <= kShown) exposed += (exposed.empty() ? "" : ", ") + message + " " + ms(time);
    waited += time;
  }
  if (count > kShown) exposed += " and " + std::to_string(count - kShown) + " more";
  const int hidden = step.messages() - static_cast<int>(step.waits().size());
  const std::string story = "The processor waits for " + ms(waited) +
                            (exposed.empty() ? "." : ": " + exposed + ".") + " " +
                            std::to_string(hidden) + " of " + std::to_string(step.messages()) +
                            " messages are hidden.";
  if (step.time() > best.time() + 1e-9) {
    std::string why;
    if (step.gathers() > best.gathers()) {
      why = " It gathers " + std::to_string(step.gathers()) + " times, and ours " +
            std::to_string(best.gathers()) +
            ": the last layer of forward is the first one of backward.";
    }
    const double longer = step.waited_for_memory() - best.waited_for_memory();
    if (longer > 1e-9) {
      why += " Memory is full, first at " + name(*step.for_memory_of()) +
             ": the processor waits for a reduce to leave, " + ms(longer) +
             " longer than in ours. Gather one layer ahead, and free() before reduce().";
    } else if (hidden < best.messages() - static_cast<int>(best.waits().size()) - 1) {
      why +=
          " Begin the gather of the next layer before this one computes, in forward and in "
          "backward.";
    }
    throw Wrong("The step takes " + ms(step.time()) + ", and ours " + ms(best.time()) + ". " +
                story + why + step.picture(network));
  }
  const bool faster = step.time() < best.time() - 1e-9;
  return "the step takes " + ms(step.time()) +
         (faster ? ", and ours " + ms(best.time()) : std::string(", as ours does")) +
         ", and holds at most " + mb(step.most()) + " of " + mb(machine.memory) + ". " + story +
         step.picture(network);
}

}  // namespace

int main() {
  const Machine fast = {std::vector<double>(6, 1.0), std::vector<double>(6, 10.0), 20.0, 40.0};
  const Machine slow = {std::vector<double>(6, 1.0), std::vector<double>(6, 10.0), 5.0, 40.0};
  const Machine unequal = {{1, 2, 4, 1, 1, 3}, {5, 10, 20, 5, 5, 15}, 10.0, 60.0};
  const auto on = [](const char* network, const Machine& machine) {
    return exercise::Check{network, [network, machine] { return play(network, machine); }};
  };
  return exercise::grade("Exercise 16. FSDP's prefetch",
                         {on("fast link", fast), on("slow link", slow), on("unequal", unequal)});
}
