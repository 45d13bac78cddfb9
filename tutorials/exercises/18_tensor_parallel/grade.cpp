// Grades answers to exercise 18.
#include <algorithm>
#include <functional>

#include "exercises/18_tensor_parallel/exercise.h"
#include "exercises/support/compare.h"
#include "exercises/support/ranks.h"

using exercise::grouped, exercise::Layer, exercise::require, exercise::Run;
using hero::Tensor;
using hero::dist::Communicator;

namespace {

constexpr int64_t kRows = 5, kIn = 12, kHidden = 24, kOut = 24;
constexpr int kMost = 4;  // ranks

// Whole numbers from -4 to 3: their sums and products are exact in every order.
Tensor whole(const hero::Shape& shape, int64_t seed) {
  int64_t count = 1;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) count *= shape[d];
  std::vector<float> values;
  auto state = static_cast<uint32_t>(seed);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(state >> 16 & 7U) - 4.0F);
  }
  return Tensor(hero::Array::from(values, shape));
}

// A layer, what goes in, and the gradient of what comes out.
struct Case {
  Case(int64_t in, int64_t out, int64_t seed)
      : w(whole({out, in}, seed)),
        b(whole({out}, seed + 1)),
        x(whole({kRows, in}, seed + 2)),
        g(whole({kRows, out}, seed + 3)),
        before(whole({kRows, in}, seed + 4)) {}
  Tensor y() const { return matmul(x, w.t()) + b; }
  Tensor w, b, x, g;
  Tensor before;  // what goes in in the step before
};

struct Result {
  Tensor y, of_x, of_w, of_b, w, b;
};

// The part of a rank: along 0 the rows, along 1 the columns; all of it with -1.
Tensor cut(const Tensor& x, int dim, int rank, int ranks) {
  if (dim < 0) return x;
  const int64_t size = x.size(dim) / ranks, begin = rank * size;
  return (dim == 0 ? x.slice(0, begin, begin + size) : x.t().slice(0, begin, begin + size).t())
      .clone();
}

std::string on_ranks(int rank, int ranks) {
  return "On " + std::to_string(ranks) + (ranks == 1 ? " rank, rank " : " ranks, rank ") +
         std::to_string(rank) + ": ";
}

void exact(const std::string& name, const Tensor& got, const Tensor& right,
           const std::vector<std::pair<Tensor, std::string>>& mistakes = {}) {
  exercise::compare(name, got, right, mistakes);
  require(got.to_vector<double>() == right.to_vector<double>(), name,
          " differs from what it should be by a rounding: all numbers here are whole.");
}

using Make = std::unique_ptr<Layer> (*)(const Tensor&, const Tensor&, const Communicator&);

// How a layer is cut: the dimension along which each tensor is, or -1.
struct Cut {
  Make make;
  int w, b, x, y;
};
const Cut kColumns = {&exercise::by_columns, 0, 0, -1, 1};
const Cut kByRows = {&exercise::by_rows, 1, -1, 1, -1};

void check(const Cut& how, int ranks) {
  const Case c(kIn, kOut, 1);
  std::vector<Result> results(static_cast<size_t>(ranks));
  exercise::run_ranks(ranks, [&](const Communicator& world, Run&) {
    const auto layer = how.make(c.w, c.b, world);
    require(layer != nullptr, "It returns no object.");
    Result& result = results[static_cast<size_t>(world.rank())];
    result.w = layer->weight, result.b = layer->bias;
    const auto at = [&](const Tensor& x, int dim) { return cut(x, dim, world.rank(), ranks); };
    const auto same = [&](const char* name, const Tensor& got, const Tensor& right, int dim) {
      require(got.defined(), on_ranks(world.rank(), ranks), name, " is undefined.");
      require(got.shape() == right.shape(), on_ranks(world.rank(), ranks), name, " has the shape ",
              got.shape(), " and should have ", right.shape(), ".",
              dim < 0    ? " It is whole on every rank."
              : dim == 0 ? " A rank has some of its rows: w is stored as [out, in]."
                         : " A rank has some of its columns: w is stored as [out, in].");
    };
    same("weight", layer->weight, at(c.w, how.w), how.w);
    same("bias", layer->bias, at(c.b, how.b), how.b);
    layer->forward(at(c.before, how.x));  // another step, of which nothing may be left
    layer->backward(at(c.g, how.y));
    result.y = layer->forward(at(c.x, how.x));
    result.of_x = layer->backward(at(c.g, how.y));
    result.of_w = layer->weight_gradient, result.of_b = layer->bias_gradient;
  });
  const double n = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const Result& got = results[static_cast<size_t>(rank)];
    const auto at = [&](const Tensor& x, int dim) { return cut(x, dim, rank, ranks); };
    const std::string on = on_ranks(rank, ranks);
    const Tensor w = at(c.w, how.w), x = at(c.x, how.x), g = at(c.g, how.y);
    exact(on + "weight", got.w, w, {});
    exact(on + "bias", got.b, at(c.b, how.b), {});
    const Tensor summand = matmul(x, w.t());
    std::vector<std::pair<Tensor, std::string>> of_y = {
        {at(c.y() - c.b, how.y), "The bias is missing."}};
    const Tensor old_w = matmul(g.t(), at(c.before, how.x));
    const std::string added =
        "That of the step before is in it as well: backward sets a gradient, and does not add to "
        "it.";
    std::vector<std::pair<Tensor, std::string>>
        of_x = {},
        of_w = {{old_w, "It is made of the x of the step before: keep that of the last forward."},
                {old_w + matmul(g.t(), x), added}},
        of_b = {{2.0 * sum(g, {0}), added}};
    if (ranks > 1) {
      if (how.y < 0) {
        of_y.insert(
            of_y.end(),
            {{c.y() + (n - 1) * c.b,
              "The bias is in it once for each rank: add it to the sum, and not to what is "
              "summed."},
             {summand + c.b, "It is what this rank has alone: y is the sum over the ranks."},
             {summand, "It is what this rank has alone: y is the sum over the ranks."},
             {(c.y() - c.b) / n + c.b,
              "It was divided by the number of ranks: y is the sum over the ranks, not the "
              "mean."}});
        Tensor all = matmul(g, w);
        for (int other = 0; other < ranks; ++other) {
          if (other != rank) all = all + matmul(g, cut(c.w, how.w, other, ranks));
        }
        of_x = {{all,
                 "It was summed over the ranks. But each rank has columns of x of its own, and all "
                 "have the same gradient of y: nothing is to be summed."}};
        of_w.emplace_back(n * matmul(g.t(), x),
                          "It is " + std::to_string(ranks) +
                              " times too large: all ranks have the same gradient of y.");
        of_b = {{n * sum(g, {0}),
                 "It is " + std::to_string(ranks) +
                     " times too large: every rank has the whole gradient of y, and the whole "
                     "gradient of b by that."}};
      } else {
        of_x = {{matmul(g, w),
                 "It is what this rank has alone: all ranks have used the same x, so its gradient "
                 "is the sum over the ranks."},
                {matmul(c.g, c.w) / n,
                 "It was divided by the number of ranks: it is the sum over the ranks, not the "
                 "mean."}};
      }
    }
    exact(on + "y", got.y, at(c.y(), how.y), of_y);
    exact(on + "the gradient of x", got.of_x, at(matmul(c.g, c.w), how.x), of_x);
    exact(on + "the gradient of w", got.of_w, matmul(g.t(), x), of_w);
    exact(on + "the gradient of b", got.of_b, sum(g, {0}), of_b);
  }
}

std::string columns() {
  for (int ranks = 1; ranks <= kMost; ++ranks) check(kColumns, ranks);
  return "on 1, 2, 3 and 4 ranks y and all gradients are those of the whole layer, to the last "
         "bit.";
}
std::string rows() {
  for (int ranks = 1; ranks <= kMost; ++ranks) check(kByRows, ranks);
  return "on 1, 2, 3 and 4 ranks y and all gradients are those of the whole layer, to the last "
         "bit.";
}

// Two layers with a relu between them.
std::string pair() {
  std::string line;
  for (int ranks = 1; ranks <= kMost; ++ranks) {
    const Case first(kIn, kHidden, 1), second(kHidden, kOut, 2);
    const Tensor h = first.y(), y = matmul(relu(h), second.w.t()) + second.b;
    const Tensor of_x = matmul(where(h > 0.0, matmul(second.g, second.w), zeros_like(h)), first.w);
    std::vector<Result> results(static_cast<size_t>(ranks));
    const auto runs = exercise::run_ranks(ranks, [&](const Communicator& world, Run& run) {
      const auto one = exercise::by_columns(first.w, first.b, world),
                 two = exercise::by_rows(second.w, second.b, world);
      Result& result = results[static_cast<size_t>(world.rank())];
      world.traffic().reset();
      const Tensor mine = one->forward(first.x);
      result.y = two->forward(relu(mine));
      const int64_t calls = world.traffic().calls();
      const Tensor g = two->backward(second.g);
      result.of_x = one->backward(where(mine > 0.0, g, zeros_like(g)));
      run.sent = world.traffic().bytes();
      run.notes = {calls, world.traffic().calls() - calls,
                   one->weight.array().nbytes() + two->weight.array().nbytes()};
    });
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      const std::string place = on_ranks(rank, ranks);
      exact(place + "y of both layers", results[at].y, y);
      exact(place + "the gradient of x through both layers", results[at].of_x, of_x);
      const std::vector<int64_t>& notes = runs[at].notes;
      require(notes[0] == 1, place, "forward makes ", notes[0],
              " calls, and one is enough. What the first layer makes on a rank is what the second "
              "one needs there: nothing has to be gathered.");
      require(notes[1] == 1, place, "backward makes ", notes[1],
              " calls, and one is enough: the gradients of weights and biases need none.");
      int64_t sent = 0;
      for (const int64_t numel : {kRows * kOut, kRows * kIn}) {
        const auto counts = hero::dist::ChunkCounts::balanced(numel, ranks);
        sent += 4 * (numel - counts.count(rank) + (ranks - 1) * counts.count(rank));
      }
      require(runs[at].sent == sent, place, "it sends ", grouped(runs[at].sent),
              " bytes, and by the formula 2 n (N - 1) / N for each of the two messages ",
              grouped(sent), ".");
      const int64_t kept = 4 * (kIn + kOut) * kHidden / ranks;
      require(notes[2] == kept, place, "the weights have ", grouped(notes[2]),
              " bytes, and 1 / N of both are ", grouped(kept), ".");
      if (rank == 0) {
        line = "one call in forward and one in backward. Rank 0 of " + std::to_string(ranks) +
               " sends " + grouped(runs[at].sent) + " bytes, by the formula 2 n (N - 1) / N " +
               grouped(sent) + ", and keeps " + grouped(notes[2]) +
               " bytes of weights, by the formula 1 / N " + grouped(kept) + ".";
      }
    }
  }
  return line;
}

}  // namespace

int main() {
  return exercise::grade("Exercise 18. A linear layer by columns and by rows",
                         {{"columns", columns, exercise::kRanksHang},
                          {"rows", rows, exercise::kRanksHang},
                          {"both", pair, exercise::kRanksHang}});
}
