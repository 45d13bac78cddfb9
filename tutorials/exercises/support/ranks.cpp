#include "exercises/support/ranks.h"

#include <cmath>
#include <map>

#include <hero/core/ledger.h>

namespace exercise {

using hero::Tensor;

Tensor Network::forward(const Tensor& x) {
  Tensor h = x;
  for (hero::nn::Linear* layer : {&first, &second, &third, &fourth, &fifth}) h = relu((*layer)(h));
  return last(h);
}

Network make_network(uint64_t seed) {
  hero::manual_seed(seed);
  return Network();
}

Tensor loss_of(Network& net, int step, int rank) {
  hero::manual_seed(1000 + 100 * static_cast<uint64_t>(step) + static_cast<uint64_t>(rank));
  Tensor rows, classes;
  {
    const hero::MemoryScope other(hero::MemoryTag::other);
    rows = hero::randn({8, 30});
    classes = hero::randint(0, 10, {8});
  }
  return cross_entropy(net(rows), classes);
}

namespace {

std::vector<Named> copies_of(const Network& net, bool gradients) {
  const hero::MemoryScope other(hero::MemoryTag::other);
  std::vector<Named> list;
  for (const auto& [name, p] : net.named_parameters()) {
    const Tensor from = gradients ? p.grad() : p;
    list.push_back({name, from.defined() ? from.array().clone() : hero::Array()});
  }
  return list;
}

}  // namespace

std::vector<Named> values_of(const Network& net) { return copies_of(net, false); }

int64_t held_bytes() {
  const hero::Ledger& ledger = hero::current_ledger();
  return ledger.live() - ledger.live(hero::MemoryTag::other);
}

int64_t most_held_bytes() {
  const hero::Ledger& ledger = hero::current_ledger();
  return ledger.peak() - ledger.live(hero::MemoryTag::other);
}

int64_t most_without_gradients(Gone gone) {
  hero::Ledger ledger;
  const hero::LedgerScope scope(ledger);
  Network net = make_network(1);
  std::map<const hero::nn::Module*, size_t> complete;  // gradients of each layer
  for (const hero::nn::Module* layer : net.children()) {
    for (const Tensor& p : layer->parameters()) {
      p.register_leaf_hook([&complete, layer, gone](const Tensor& q) {
        if (gone == Gone::with_parameter) {
          q.set_grad({});
        } else if (++complete[layer] == layer->parameters().size()) {
          for (const Tensor& of_layer : layer->parameters()) of_layer.set_grad({});
        }
      });
    }
  }
  ledger.reset_peak();
  loss_of(net, 0, 0).backward();
  return most_held_bytes();
}

Alone train_alone(int ranks) {
  Alone alone;
  Network net = make_network(1);
  hero::optim::SGD sgd(net.parameters(), kSGD);
  hero::optim::Accumulator sum(net.parameters());
  alone.values.push_back(values_of(net));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<Named>> each;
    for (int rank = 0; rank < ranks; ++rank) {
      loss_of(net, step, rank).backward();
      each.push_back(copies_of(net, true));
      sum.add();
    }
    sum.mean();
    alone.gradients.push_back(each);
    alone.means.push_back(copies_of(net, true));
    sgd.step();
    sgd.zero_grad();
    alone.values.push_back(values_of(net));
  }
  return alone;
}

std::vector<Run> run_ranks(int ranks, const std::function<void(const Communicator&, Run&)>& body) {
  std::vector<Run> runs(static_cast<size_t>(ranks));
  hero::dist::run_ranks(
      ranks, [&](Communicator& world) { body(world, runs[static_cast<size_t>(world.rank())]); },
      {.timeout = 4});
  return runs;
}

namespace {

using Numbers = std::vector<double>;

Numbers numbers(const Named& named) { return named.values.flatten().to_vector<double>(); }

// factor_a * a + factor_b * b
Numbers sum(double factor_a, const Numbers& a, double factor_b, const Numbers& b) {
  Numbers out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = factor_a * a[i] + factor_b * b[i];
  return out;
}

double length(const Numbers& a) {
  double square = 0.0;
  for (const double v : a) square += v * v;
  return std::sqrt(square);
}

// Whether a step along `a` is one along `b`, up to roundings of float32.
bool alike(const Numbers& a, const Numbers& b) {
  return length(sum(1, a, -1, b)) <= 2e-2 * length(b) && length(b) > 0;
}

// Whether part of `got` is right, and all the rest is what it was.
bool moved_in_part(const Numbers& got, const Numbers& right, const Numbers& before) {
  size_t moved = 0, old = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    moved += got[i] == right[i] ? 1 : 0;
    old += got[i] == before[i] && got[i] != right[i] ? 1 : 0;
  }
  return moved > 0 && old > 0 && moved + old == got.size();
}

// Of the parameter in which a rank differs after `step` steps, what its last step looks like.
std::string mistake(const std::vector<Run>& runs, const Alone& alone, size_t rank, size_t step,
                    size_t which) {
  const size_t ranks = runs.size(), now = step - 1;
  const auto right_before = numbers(alone.values[now][which]);
  const Numbers got = numbers(runs[rank].values[step][which]);
  const Numbers taken = sum(1 / kSGD.lr, right_before, -1 / kSGD.lr, got);  // the step, by lr
  const Numbers mean = numbers(alone.means[now][which]);
  const Numbers own = numbers(alone.gradients[now][rank][which]);
  Numbers momentum(mean.size(), 0.0);
  for (size_t s = 0; s < now; ++s) {
    momentum = sum(kSGD.momentum, sum(1, momentum, 1, numbers(alone.means[s][which])), 0, momentum);
  }
  const auto of = [&](const Numbers& gradient) { return sum(1, momentum, 1, gradient); };
  const auto n = static_cast<double>(ranks);
  const Numbers none(mean.size(), 0.0);
  std::string who = ranks > 1 ? " on rank " + std::to_string(rank) : "";
  if (length(taken) == 0.0) {
    return " It has not moved" + who +
           ": no gradient has reached the optimizer, or the new values were not "
           "brought to it.";
  }
  if (ranks > 1 && alike(taken, of(sum(n, mean, 0, none)))) {
    return " The step is " + std::to_string(ranks) +
           " times too long: the gradients of all ranks were added up "
           "and never divided by their number.";
  }
  if (ranks > 1 && alike(taken, of(sum(1 / n, mean, 0, none)))) {
    return " The gradient was divided twice by the number of ranks: a mean is divided already.";
  }
  if (ranks > 1 && alike(taken, of(own))) {
    return " The rank has stepped with its own gradient and not with the mean of all ranks: the "
           "mean was not "
           "computed, had not come yet, or was never put into the gradient.";
  }
  if (ranks > 1 && alike(taken, of(sum(1 / n, own, 0, none)))) {
    return " The rank has stepped with its own gradient, divided by the number of ranks: nothing "
           "was added up.";
  }
  for (size_t other = 0; other < ranks; ++other) {
    if (other != rank && alike(taken, of(numbers(alone.gradients[now][other][which])))) {
      return " This is a step with the gradient of rank " + std::to_string(other) + " alone.";
    }
  }
  if (now > 0) {
    const Numbers before = numbers(alone.means[now - 1][which]);
    const Numbers own_before = numbers(alone.gradients[now - 1][rank][which]);
    if (alike(taken, of(sum(1, mean, 1, before)))) {
      return " The gradient of the step before is in it as well: gradients were not cleared.";
    }
    if (alike(taken, of(before))) {
      return " The gradient is stale: it is that of the step before.";
    }
    if (alike(taken, of(none)))
      return " The gradient was zero in this step: only the momentum has moved it.";
    if (alike(taken, mean)) {
      return " The momentum of the step before is lost: make the optimizer once, and not in every "
             "step.";
    }
  }
  if (ranks > 1 && moved_in_part(got, numbers(alone.values[step][which]), right_before)) {
    return " Only this rank's part has moved" + who +
           ": the other ranks' new values were not gathered.";
  }
  return "";
}

// All numbers of these parameters one behind the other.
Numbers flat(const std::vector<Named>& list, size_t begin, size_t end) {
  Numbers all;
  for (size_t i = begin; i < end; ++i) {
    const Numbers part = numbers(list[i]);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// What goes wrong in the parameters begin ... end - 1, if they are cut in one part a rank.
std::string mistake_of_parts(const Run& run, const Alone& alone, size_t ranks, size_t step,
                             size_t begin, size_t end) {
  const Numbers before = flat(alone.values[step - 1], begin, end),
                right = flat(alone.values[step], begin, end);
  const Numbers got = flat(run.values[step], begin, end);
  const Numbers moved = sum(1, before, -1, got), should = sum(1, before, -1, right);
  const auto cut =
      hero::dist::ChunkCounts::balanced(static_cast<int64_t>(got.size()), static_cast<int>(ranks));
  const auto part = [&](const Numbers& all, size_t rank) {
    const auto first = all.begin() + cut.first(static_cast<int>(rank));
    return Numbers(first,
                   first + cut.count(static_cast<int>(ranks) - 1));  // the smallest is the last
  };
  // a part that its owner has moved by the gradient of its own rows; the first step has no momentum
  bool own_gradients = step == 1;
  for (size_t place = 0; place < ranks && own_gradients; ++place) {
    const Numbers own = flat(alone.gradients[0][place], begin, end);
    own_gradients = alike(part(moved, place), part(sum(kSGD.lr, own, 0, own), place));
  }
  if (own_gradients) {
    return " Every part was moved by the gradient of its owner's rows and not by the mean of all "
           "ranks.";
  }
  for (size_t place = 0; place < ranks; ++place) {
    for (size_t other = 0; other < ranks; ++other) {
      if (other == place) continue;
      const Numbers values = part(right, other);
      const std::string parts = "the part of rank " + std::to_string(other);
      if (length(sum(1, part(got, place), -1, values)) < 0.2 * length(values)) {
        return " In the place of rank " + std::to_string(place) + " lies " + parts +
               ": a part has the wrong owner. "
               "Rank r owns the elements from its own begin to its own end.";
      }
      if (alike(part(moved, place), part(should, other))) {
        return " The part of rank " + std::to_string(place) + " was moved by the gradient of " +
               parts + ": a part has the wrong owner.";
      }
    }
  }
  return "";
}

}  // namespace

void compare(const std::vector<Run>& runs, const Alone& alone) {
  const std::string ranks = std::to_string(runs.size()) + (runs.size() == 1 ? " rank" : " ranks");
  for (size_t step = 0; step < alone.values.size(); ++step) {
    for (size_t rank = 0; rank < runs.size(); ++rank) {
      require(step < runs[rank].values.size(), "Rank ", rank, " has ended before step ", step, ".");
      const Difference difference = first_difference(runs[rank].values[step], alone.values[step]);
      if (!difference.found) continue;
      if (step == 0) {
        throw Wrong("On " + ranks + ", before the first step, on rank " + std::to_string(rank) +
                    ": " + difference.text + " All ranks have to begin with the values of rank 0.");
      }
      std::string why = mistake(runs, alone, rank, step, difference.which);
      if (why.empty() && runs.size() > 1) {
        const size_t layer = difference.which / 2 * 2, all = alone.values[step].size();
        why = mistake_of_parts(runs[rank], alone, runs.size(), step, 0, all);
        if (why.empty())
          why = mistake_of_parts(runs[rank], alone, runs.size(), step, layer, layer + 2);
      }
      throw Wrong("On " + ranks + ", after step " + std::to_string(step) + ", on rank " +
                  std::to_string(rank) + ": " + difference.text + why);
    }
  }
}

}  // namespace exercise
