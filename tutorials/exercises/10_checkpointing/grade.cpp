// Grades answers to exercise 10.
#include <algorithm>
#include <cmath>

#include "exercises/10_checkpointing/exercise.h"
#include "exercises/support/arrays.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Layer, exercise::Loss, exercise::Named, exercise::number;
using exercise::require, exercise::Wrong;
using hero::MemoryTag, hero::Tensor;

namespace {

constexpr size_t kLayers = 16;
constexpr int64_t kRows = 32, kWidth = 24;
constexpr int64_t kActivation = 4 * kRows * kWidth;    // bytes of what a layer passes on
constexpr int64_t kLayer = 4 * (kWidth + 1) * kWidth;  // bytes of its parameters

// tanh(x w + b), with dropout behind it where `rate` is not 0. Counts the calls of its layers.
struct Chain {
  explicit Chain(double rate) {
    hero::manual_seed(7);
    const hero::MemoryScope scope(MemoryTag::parameter);
    for (size_t i = 0; i < kLayers; ++i) {
      const Tensor w = (hero::randn({kWidth, kWidth}) / std::sqrt(static_cast<double>(kWidth)))
                           .detach()
                           .requires_grad_();
      const Tensor b = hero::zeros({kWidth}).requires_grad_();
      parameters.emplace_back("layer " + std::to_string(i) + ": w", w);
      parameters.emplace_back("layer " + std::to_string(i) + ": b", b);
      layers.push_back([this, w, b, rate, i](const Tensor& input) {
        ++calls;
        if (hero::grad_enabled() && recorded++ == 0) first_recorded = i;
        const Tensor y = tanh(matmul(input, w) + b);
        return rate > 0.0 ? dropout(y, rate) : y;
      });
    }
    const hero::MemoryScope other(MemoryTag::other);
    x = hero::randn({kRows, kWidth});
    target = hero::randn({kRows, kWidth});
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  Loss loss() const {
    return [this](const Tensor& y) { return mse_loss(y, target); };
  }
  std::vector<Named> gradients() const {
    std::vector<Named> list;
    for (const auto& [name, p] : parameters)
      list.push_back({name, p.grad().defined() ? p.grad().array().clone() : hero::Array()});
    return list;
  }

  std::vector<std::pair<std::string, Tensor>> parameters;
  std::vector<Layer> layers;
  Tensor x, target;
  int calls = 0, recorded = 0;
  size_t first_recorded = 0;  // the layer
};

// One step; the loss.
double step(Chain& chain, size_t every) {
  hero::manual_seed(11);
  Tensor value;
  try {
    value = exercise::forward_and_backward(chain.layers, every, chain.loss(), chain.x);
  } catch (const hero::Error& error) {
    const std::string text = error.what();
    const auto says = [&](const char* part) { return text.find(part) != std::string::npos; };
    require(!says("does not require grad"), "It throws an error: ", text,
            ". NoGrad lives to the end of the braces around it: those of forward have to end "
            "before backward runs the pieces.");
    require(!says("tensor: it is undefined"), "It throws an error: ", text,
            ". Was the loss put into `value`?");
    if (!says("needs no gradient given")) throw;
    throw Wrong("It throws an error: " + text + "." +
                (chain.first_recorded < (kLayers - 1) / every * every
                     ? " Backward has to begin with the last piece, whose loss is one number."
                     : " A piece goes backward without a gradient: y.backward(gradient) takes the "
                       "one that has arrived at the input of the piece behind it, input.grad(). "
                       "None arrives unless that input has had requires_grad_() and the piece ran "
                       "on it."));
  }
  require(value.defined() && value.numel() == 1, "It does not return the loss, one number.");
  return value.item();
}

// What a chain that keeps everything has.
double step_whole(Chain& chain) {
  hero::manual_seed(11);
  const Tensor value = chain.loss()(exercise::run(chain.layers, 0, chain.layers.size(), chain.x));
  value.backward();
  return value.item();
}

bool all_twice(const std::vector<Named>& got, const std::vector<Named>& right) {
  for (size_t i = 0; i < right.size(); ++i) {
    const auto a = got[i].values.flatten().to_vector<double>(),
               b = right[i].values.flatten().to_vector<double>();
    for (size_t e = 0; e < a.size(); ++e) {
      if (std::fabs(a[e] - 2.0 * b[e]) > 1e-5 * std::fabs(b[e])) return false;
    }
  }
  return true;
}

// Throws unless the answer has the gradients of a chain that keeps everything.
void check(double rate, size_t every, const std::string& if_wrong) {
  Chain right(rate), chain(rate);
  const double wanted = step_whole(right), value = step(chain, every);
  const std::vector<Named> expected = right.gradients(), got = chain.gradients();
  const std::string pieces = "In pieces of " + std::to_string(every) + ": ";
  require(!chain.x.requires_grad(), pieces,
          "x, which belongs to the caller, requires a gradient now, and would add up one in every "
          "step: detach() an input before requires_grad_().");
  size_t missing = 0;
  for (const Named& named : got) missing += named.values.defined() ? 0 : 1;
  require(missing == 0, pieces, missing / 2, " of ", kLayers, " layers have no gradient.",
          missing == got.size()
              ? " A piece runs again outside of NoGrad, on an input with requires_grad_()."
              : " The gradient of a piece's input is the one with which the piece before it goes "
                "backward.");
  const exercise::Difference difference = first_difference(got, expected);
  if (difference.found) {
    std::string why = if_wrong;
    const size_t last_piece = (kLayers - 1) / every * every;  // its first layer
    std::vector<Named> got_last(got.begin() + static_cast<std::ptrdiff_t>(2 * last_piece),
                                got.end()),
        right_last(expected.begin() + static_cast<std::ptrdiff_t>(2 * last_piece), expected.end());
    if (why.empty() && all_twice(got, expected)) {
      why = " Every gradient is twice what it should be: each piece goes backward once.";
    } else if (why.empty() && !first_difference(got_last, right_last).found) {
      why =
          " The last piece is right, and those before it are not: a piece goes backward with the "
          "gradient that has arrived at the input of the piece behind it.";
    } else if (why.empty() && last_piece > 0) {
      why =
          " The last piece is wrong already: what goes into it is what the pieces before it make "
          "of "
          "x, one after the other.";
    }
    throw Wrong(pieces + "the gradient of " + difference.text + why);
  }
  require(value == wanted, pieces, "it returns ", number(value), ", and the loss is ",
          number(wanted), ".");
}

std::string bits() {
  for (const size_t every : {16, 8, 5, 4, 2, 1}) check(0.0, every, "");
  return "in pieces of 16, 8, 5, 4, 2 and 1 of 16 layers all gradients are bitwise those of a "
         "chain "
         "that keeps everything.";
}

std::string with_dropout() {
  for (const size_t every : {16, 8, 5, 4, 2, 1}) {
    check(0.3, every,
          " Without dropout all is right. The second run of a piece has drawn other random numbers "
          "than the first: it has to begin with the state that the first one began with.");
  }
  return "the same with dropout: a piece draws the same numbers both times.";
}

std::string next_step() {
  for (const size_t every : {16, 5, 1}) {
    Chain right(0.3), chain(0.3);
    step_whole(right);
    const hero::Generator::State wanted = hero::default_generator().state();
    step(chain, every);
    require(hero::default_generator().state() == wanted, "In pieces of ", every,
            ": the random numbers go on in the middle, and the next step would draw numbers that "
            "this one has drawn. They go on where the last layer has left them: keep the state "
            "that is there when the last piece has run, and set it in the end.");
  }
  return "the next step draws the numbers that it draws after a chain that keeps everything.";
}

std::string calls() {
  std::string list;
  for (const size_t every : {16, 4, 1}) {
    Chain chain(0.0);
    step(chain, every);
    const auto last_piece = static_cast<int>(kLayers - (kLayers - 1) / every * every);
    const int wanted = 2 * static_cast<int>(kLayers) - last_piece;
    require(chain.calls == wanted, "In pieces of ", every, " it calls layers ", chain.calls,
            " times, and ", wanted, " are enough.",
            chain.calls == 2 * static_cast<int>(kLayers)
                ? " The last piece runs twice: forward need not run it."
                : "");
    list += (list.empty() ? "" : ", ") + std::to_string(chain.calls);
  }
  return "in pieces of 16, 4 and 1 it calls layers " + list + " times, by the formula 2 n - k.";
}

// The most bytes of a second step, whatever they are for, beside what there is before it.
int64_t most_of_second_step(size_t every) {
  const hero::Ledger& ledger = hero::current_ledger();
  Chain chain(0.0);
  step(chain, every);
  const int64_t before = ledger.live();
  hero::current_ledger().reset_peak();
  step(chain, every);
  return ledger.peak() - before;
}

std::string memory() {
  hero::Ledger& ledger = hero::current_ledger();
  std::string list;
  int recorded = 0;  // calls of a layer
  const auto peak_of = [&](const std::function<void(Chain&)>& body) {
    Chain chain(0.0);
    const int64_t before = ledger.live(MemoryTag::activation);
    ledger.reset_peak();
    body(chain);
    recorded = chain.recorded;
    return ledger.peak(MemoryTag::activation) - before;
  };
  const int64_t whole = peak_of([](Chain& chain) { step_whole(chain); });
  constexpr int64_t kComputing = 3;  // activations with which a layer and its backward compute
  for (const size_t every : {8, 4, 2}) {
    const int64_t held = peak_of([&](Chain& chain) { step(chain, every); });
    const auto formula = static_cast<int64_t>(kLayers / every + every);
    require(held <= (formula + kComputing) * kActivation, "In pieces of ", every,
            " it holds up to ", grouped(held),
            " bytes of activations. By the formula n / k + k activations it is ",
            grouped(formula * kActivation), ", and a layer computes with no more than ", kComputing,
            " besides. A chain that keeps everything holds ", grouped(whole), ".",
            recorded > static_cast<int>(kLayers)
                ? " Layers are recorded twice, and kept: forward has to record nothing."
                : " Keep the input of a piece, and not that of each layer; and a piece that is "
                  "done keeps nothing.");
    const int64_t beside = most_of_second_step(every);
    require(beside <= (formula + kComputing) * kActivation + kLayer, "In pieces of ", every,
            " it holds up to ", grouped(beside),
            " bytes beside parameters and their gradients. By the formula n / k + k activations "
            "it is ",
            grouped(formula * kActivation), ", and a layer computes with no more than ", kComputing,
            " and its gradients besides. A piece that is done keeps nothing: neither its input "
            "nor the gradient of that.");
    list +=
        (list.empty() ? "" : ", ") + grouped(held) + " (" + grouped(formula * kActivation) + ")";
  }
  return "in pieces of 8, 4 and 2 it holds at most " + list +
         " bytes of activations, beside the formula n / k + k; a chain that keeps everything "
         "holds " +
         grouped(whole) + ".";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 10. Activation checkpointing: compute again what was not kept",
                         {{"gradients", bits},
                          {"dropout", with_dropout},
                          {"calls", calls},
                          {"memory", memory},
                          {"next step", next_step}});
}
