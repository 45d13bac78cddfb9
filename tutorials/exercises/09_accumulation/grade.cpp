// Grades answers to exercise 9.
#include <algorithm>
#include <cmath>

#include "exercises/09_accumulation/exercise.h"
#include "exercises/support/compare.h"

#include <hero/core/ledger.h>

using exercise::grouped, exercise::Loss, exercise::number, exercise::numbers, exercise::require;
using exercise::Wrong;
using hero::MemoryTag, hero::Tensor;

namespace {

// tanh(x w1 + b1) w2 + b2, whose loss is the mean square of the distance to the target.
struct Model {
  Model(int64_t rows, hero::DType dtype) {
    const auto parameter = [&](const std::string& name, const hero::Shape& shape, double seed) {
      parameters.push_back((numbers(shape, seed) / 4.0).to(dtype).detach().requires_grad_());
      names.push_back(name);
    };
    parameter("w1", {16, 24}, 1);
    parameter("b1", {24}, 2);
    parameter("w2", {24, 4}, 3);
    parameter("b2", {4}, 4);
    const hero::MemoryScope other(MemoryTag::other);
    x = numbers({rows, 16}, 5).to(dtype);
    target = numbers({rows, 4}, 6).to(dtype);
  }
  Loss loss() {
    return [this](const Tensor& input, const Tensor& wanted) {
      most_rows = std::max(most_rows, input.size(0));
      const Tensor h = tanh(matmul(input, parameters[0]) + parameters[1]);
      return mse_loss(matmul(h, parameters[2]) + parameters[3], wanted);
    };
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> list;
    for (const Tensor& p : parameters) list.push_back(p.grad());
    return list;
  }
  double whole() {
    for (const Tensor& p : parameters) p.set_grad({});
    const Tensor value = loss()(x, target);
    value.backward();
    return value.item();
  }

  std::vector<Tensor> parameters;
  std::vector<std::string> names;
  Tensor x, target;
  int64_t most_rows = 0;
};

// The gradients of each part, each a mean over its own rows; `first_targets`: with the targets of
// the first rows in every part.
std::vector<std::vector<Tensor>> of_parts(Model& model, int64_t rows, bool first_targets = false) {
  std::vector<std::vector<Tensor>> list;
  const int64_t all = model.x.size(0);
  for (int64_t first = 0; first < all; first += rows) {
    const int64_t last = std::min(first + rows, all);
    for (const Tensor& p : model.parameters) p.set_grad({});
    const int64_t begin = first_targets ? 0 : first;
    model.loss()(model.x.slice(0, first, last), model.target.slice(0, begin, begin + last - first))
        .backward();
    list.push_back(model.gradients());
  }
  return list;
}

std::string parts() {
  constexpr int64_t kRows = 24;
  for (const int64_t rows : {24, 12, 4, 7, 10}) {
    Model model(kRows, hero::kFloat64);
    const double wanted = model.whole();
    const std::vector<Tensor> right = model.gradients();
    const auto each = of_parts(model, rows), first_targets = of_parts(model, rows, true);
    const auto count = static_cast<double>(each.size());
    for (const Tensor& p : model.parameters) p.set_grad(ones_like(p));  // of the step before
    model.most_rows = 0;
    const double value =
        exercise::accumulate(model.parameters, model.loss(), model.x, model.target, rows);
    const std::string place = "In parts of " + std::to_string(rows) + " of 24 rows ";
    require(model.most_rows > 0, place, "the loss is never computed.");
    require(model.most_rows <= rows, place, "the loss of ", model.most_rows,
            " rows is computed at once.");
    for (size_t i = 0; i < right.size(); ++i) {
      const Tensor got = model.parameters[i].grad();
      require(got.defined(), place, "the gradient of ", model.names[i],
              " is undefined. Gradients are cleared before the first part, every part goes "
              "backward, and they stay after the "
              "last.");
      Tensor sum = zeros_like(right[i]), full = zeros_like(right[i]);
      Tensor scaled = zeros_like(right[i]), of_first = zeros_like(right[i]);
      for (size_t part = 0; part < each.size(); ++part) {
        const int64_t first = static_cast<int64_t>(part) * rows;
        const double share = static_cast<double>(std::min(first + rows, kRows) - first) / kRows;
        sum = sum + each[part][i];
        scaled = (scaled + each[part][i]) * share;
        of_first = of_first + first_targets[part][i] * share;
        if (static_cast<int64_t>(part + 1) * rows <= kRows) {
          full = full + each[part][i] * (static_cast<double>(rows) / kRows);
        }
      }
      std::vector<std::pair<Tensor, std::string>> mistakes = {
          {right[i] + 1.0,
           "The gradients of the step before are in it as well: clear them before the first "
           "part."}};
      if (count > 1) {
        const int64_t last_rows = kRows - (kRows - 1) / rows * rows;
        mistakes.insert(
            mistakes.end(),
            {{sum,
              "The parts are added up and not weighted. The loss of a part is a mean over its own "
              "rows: multiply it by its share of all rows."},
             {sum / count,
              "Every part weighs the same. The last one is shorter, and its share of all rows is "
              "smaller."},
             {scaled,
              "The share of a part has multiplied what all parts before it had added, too: "
              "multiply the loss by it, before backward."},
             {of_first,
              "Every part has the targets of the first rows: target.slice(0, first, last)."},
             {full, "The last part, which is shorter, is missing."},
             {sum * (static_cast<double>(rows) / kRows),
              "Every part weighs as a whole one. The last one has fewer rows: its share is (last - "
              "first) / all."},
             {zeros_like(right[i]),
              "Everything is multiplied by zero: in C++ a whole number divided by a larger one is "
              "0. Make doubles of both, static_cast<double>(all)."},
             {each.back()[i] * (static_cast<double>(last_rows) / kRows),
              "This is the share of the last part alone: clear gradients before the first part, "
              "and not before each."}});
      }
      exercise::compare(place + "the gradient of " + model.names[i], got, right[i], mistakes);
    }
    const int64_t last = (kRows - 1) / rows * rows;  // where the last part begins
    const double of_last =
        model.loss()(model.x.slice(0, last, kRows), model.target.slice(0, last, kRows)).item();
    double twice = 0.0;  // weighted twice
    for (int64_t first = 0; first < kRows; first += rows) {
      const int64_t end = std::min(first + rows, kRows);
      const double share = static_cast<double>(end - first) / kRows;
      twice += share * share *
               model.loss()(model.x.slice(0, first, end), model.target.slice(0, first, end)).item();
    }
    const bool last_alone =
        exercise::near(value, of_last * static_cast<double>(kRows - last) / kRows, 1e-9) ||
        exercise::near(value, of_last, 1e-9);
    require(exercise::near(value, wanted, 1e-9), place, "it returns ", number(value),
            ", and the mean loss of all rows is ", number(wanted), ".",
            std::isnan(value)
                ? " A part with no rows has no loss: the last part ends with the last row."
            : last_alone ? " That is the loss of the last part alone: add them up."
            : exercise::near(value, twice, 1e-9)
                ? " The losses are weighted twice: the share is in them already."
                : " The losses are weighted as the gradients are.");
  }
  return "in parts of 24, 12, 4, 7 and 10 of 24 rows the gradients are those of the whole batch, "
         "up "
         "to roundings.";
}

std::string memory() {
  constexpr int64_t kRows = 512, kPart = 16;
  hero::Ledger& ledger = hero::current_ledger();
  const auto peak_of = [&](const std::function<void(Model&)>& body) {
    Model model(kRows, hero::kFloat32);
    const int64_t before = ledger.live(MemoryTag::activation);
    ledger.reset_peak();
    body(model);
    return ledger.peak(MemoryTag::activation) - before;
  };
  const int64_t whole = peak_of([](Model& model) { model.whole(); });
  const int64_t held = peak_of([](Model& model) {
    exercise::accumulate(model.parameters, model.loss(), model.x, model.target, kPart);
  });
  const int64_t formula = whole * kPart / kRows;
  require(held <= 2 * formula, "In parts of ", kPart, " of ", kRows, " rows it holds up to ",
          grouped(held), " bytes of activations. The whole batch holds ", grouped(whole),
          ", and a part its share of that, ", grouped(formula),
          ". The graph of a part is there until its backward: go backward in every part, and not "
          "once at the end.");
  return "in parts of 16 of 512 rows it holds at most " + grouped(held) +
         " bytes of activations; by its share of the whole batch, which holds " + grouped(whole) +
         ", it is " + grouped(formula) + ".";
}

// Numbers whose sum depends on the order, one tensor for each part.
std::vector<Tensor> summands(int count) {
  std::vector<Tensor> list;
  for (int i = 0; i < count; ++i) {
    list.push_back((numbers({50}, 10.0 + i) * std::pow(3.0, i % 5)).to(hero::kFloat32));
  }
  return list;
}

// The sum of a tree: the largest power of two below the count on the left.
Tensor tree_of(const std::vector<Tensor>& x, size_t first, size_t count) {
  if (count == 1) return x[first];
  size_t left = 1;
  while (2 * left < count) left *= 2;
  return tree_of(x, first, left) + tree_of(x, first + left, count - left);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.defined() && a.shape() == b.shape() && a.to_vector<float>() == b.to_vector<float>();
}

std::string tree() {
  for (int count = 1; count <= 16; ++count) {
    const std::vector<Tensor> x = summands(count), given = summands(count);
    const auto sum = exercise::tree_sum();
    require(sum != nullptr, "tree_sum() returns no object.");
    for (const Tensor& part : x) sum->add(part);
    const Tensor got = sum->sum(), right = tree_of(given, 0, given.size());
    for (size_t i = 0; i < x.size(); ++i) {
      require(same(x[i], given[i]), "Of ", count, " tensors, add() has changed number ", i,
              ", which belongs to the caller: a sum is a tensor of its own, a + b.");
    }
    require(got.defined(), "The sum of ", count, " tensors is undefined.");
    if (same(got, right)) continue;
    Tensor chain = x[0], turned;
    double missing = 0.0;
    for (size_t i = 1; i < x.size(); ++i) chain = chain + x[i];
    for (const Tensor& part : x) turned = turned.defined() ? part + turned : part;
    for (size_t i = 0; i < right.to_vector<float>().size(); ++i) {
      missing =
          std::max(missing, std::fabs(got.to_vector<double>()[i] - right.to_vector<double>()[i]));
    }
    std::string why;
    if (same(got, chain)) {
      why = " They were added one after the other.";
    } else if (missing > 1e-2) {
      why = " This is no rounding: some of them were added twice, or not at all.";
    } else {
      why = " It differs by roundings, so the tree is another one.";
    }
    const exercise::Difference difference =
        exercise::first_difference({{"number", got.array()}}, {{"number", right.array()}});
    throw Wrong("Of the sum of " + std::to_string(count) + " tensors, " + difference.text + why);
  }
  return "1 to 16 tensors are added in the order of the tree, to the last bit.";
}

std::string levels() {
  constexpr int kCount = 64;
  constexpr int64_t kNumel = 1000;
  hero::Ledger& ledger = hero::current_ledger();
  const auto sum = exercise::tree_sum();
  const int64_t before = ledger.live();
  ledger.reset_peak();
  for (int i = 0; i < kCount; ++i) sum->add(hero::full({kNumel}, 1.0 * i));
  const int64_t held = (ledger.peak() - before) / (4 * kNumel);
  const auto formula = static_cast<int64_t>(2 + std::log2(kCount));
  require(held <= formula + 1, "While ", kCount, " tensors are added it holds up to ", held,
          " of them. A sum for each level and the one that is carried are ", formula,
          ": a level that was added becomes free.");
  return "while 64 tensors are added it holds at most " + std::to_string(held) +
         " of them, beside the formula 2 + log2 m " + std::to_string(formula) + ".";
}

std::string bits() {
  constexpr int64_t kRows = 1024, kPart = 256;
  Model model(kRows, hero::kFloat32);
  model.whole();
  const std::vector<Tensor> right = model.gradients();
  const auto each = of_parts(model, kPart);
  exercise::accumulate(model.parameters, model.loss(), model.x, model.target, kPart);
  std::vector<exercise::Named> got, wanted;
  int64_t differ = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    Tensor sum = model.parameters[i].grad();
    if (right[i].dim() == 1) {
      const auto tree = exercise::tree_sum();
      for (const auto& part : each) tree->add(part[i] / 4.0);
      differ += same(sum, right[i]) ? 0 : 1;
      sum = tree->sum();
    }
    got.push_back({"the gradient of " + model.names[i], sum.array()});
    wanted.push_back({"the gradient of " + model.names[i], right[i].array()});
  }
  const exercise::Difference difference = exercise::first_difference(got, wanted);
  require(!difference.found, "In 4 parts of 256 rows ", difference.text);
  return "4 parts of 256 rows have the bits of the whole batch: the weights by accumulate(), the "
         "biases by the tree. By accumulate(), " +
         std::to_string(differ) + " of 2 biases have others.";
}

}  // namespace

int main() {
  return exercise::grade(
      "Exercise 9. Gradient accumulation: a batch in parts",
      {{"parts", parts}, {"memory", memory}, {"tree", tree}, {"levels", levels}, {"bits", bits}});
}
