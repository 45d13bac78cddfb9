// Long sequences and many experts: sequence, context and expert parallelism
#include "support/lessons/memory.h"
#include "support/options/device.h"
#include "support/options/ranks.h"

#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::Mesh;
using tutorial::device, tutorial::everywhere, tutorial::RankTable, tutorial::same_bits,
    tutorial::say;
namespace dist = hero::dist;
namespace nn = hero::nn;

namespace {

constexpr int64_t kRows = 2, kT = 48, kC = 96;  // sequences, their length, the model's width
const nn::GPTConfig kConfig = {
    .vocab_size = 48, .block_size = kT, .n_layer = 2, .n_head = 24, .n_embd = kC};

// As many as ranks, and four where that is possible: what is computed is the same on 1, 2 and 4.
int slices_of(const Communicator& world) { return 4 % world.size() == 0 ? 4 : world.size(); }

struct Run {
  double loss;                // after the last step
  int64_t sent, activations;  // bytes in the last step, and the most at once
};

// [snippet: train]
// Five steps on the same sequences, which every rank passes whole.
Run train(nn::GPT& model, const Communicator& axis) {
  hero::manual_seed(7);
  const Tensor tokens = hero::randint(0, 48, {kRows, kT}, {.device = device()});
  hero::optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Run run = {};
  for (int step = 0; step < 5; ++step) {
    axis.traffic().reset();
    hero::current_ledger().reset_peak();
    sgd.zero_grad();
    const Tensor loss = model.loss(tokens, tokens);
    loss.backward();
    run = {loss.item(), axis.traffic().bytes_of_axis("shared"),
           hero::current_ledger().peak(hero::MemoryTag::activation, device().type)};
    sgd.step();
  }
  return run;
}
// [end]

nn::GPT make_model() {
  hero::manual_seed(1);
  nn::GPT model(kConfig);
  model.to(device());
  return model;
}

// [snippet: sequence]
Run sequence_parallel(const Communicator& axis, int slices, bool sequence) {
  nn::GPT model = make_model();
  dist::tensor_parallel(model, axis, {.slices = slices, .sequence = sequence});
  return train(model, axis);
}
// [end]

// [snippet: context]
Run context_parallel(const Communicator& axis, int slices) {
  nn::GPT model = make_model();
  dist::context_parallel(model, axis, {.slices = slices});
  const dist::DDP ddp(model, axis);  // averages the gradients of the ranks' positions
  return train(model, axis);
}
// [end]

// Each number of `numel` is sent (N - 1) / N times by a reduce_scatter, and as often by an
// all_gather; an all_reduce is both.
int64_t part_bytes(const Communicator& world, int64_t numel) {
  return 4 * numel * (world.size() - 1) / world.size();
}

void show(const Communicator& world, const char* title, const Run& run, const Run& alone,
          int64_t formula) {
  RankTable table(world);
  table.row("sent in a step, bytes", run.sent).row("formula", formula);
  table.row("activations at most, bytes", run.activations);
  table.print(title);
  say(world, "  activations where one rank computes all slices: %lld bytes\n",
      static_cast<long long>(alone.activations));
  say(world, "  loss after five steps: %.4f, %s\n\n", run.loss,
      everywhere(world, run.loss == alone.loss) ? "bitwise identical to one process"
                                                : "NOT that of one process");
}

void sequences(const Communicator& axis, const Communicator& alone) {
  const int slices = slices_of(axis);
  const int64_t layers = kConfig.n_layer, n = kRows * kT * kC;
  // in each block two sums forward and two backward, and one for the embedding; the last norm's
  // positions are gathered; three sums for the loss, and those of norms and biases
  const int64_t whole =
      2 * ((4 * layers + 2) * part_bytes(axis, n) + 3 * part_bytes(axis, kRows * kT));
  const int64_t small = 2 * part_bytes(axis, n) + 2 * 6 * layers * part_bytes(axis, kC);
  const Run one = sequence_parallel(alone, slices, false);
  show(axis, "tensor parallelism", sequence_parallel(axis, slices, false), one, whole);
  show(axis, "with sequence parallelism", sequence_parallel(axis, slices, true),
       sequence_parallel(alone, slices, true), whole + small);
}

void contexts(const Communicator& axis, const Communicator& alone) {
  const int slices = slices_of(axis);
  if ((slices & (slices - 1)) != 0) {  // one rank could not compute them all in the same order
    say(axis, "context parallelism: not with %d ranks, which are no power of two\n\n", slices);
    return;
  }
  // of each layer the keys and values, forward, and their gradients, backward; and the loss
  const int64_t keys_values = kRows * kT * 2 * kC;
  const int64_t loss = axis.rank() == 0 ? 4 * (axis.size() - 1) : 4;
  const int64_t gradients = [&] {
    int64_t bytes = 0;
    nn::GPT model = make_model();
    for (const Tensor& p : model.parameters()) bytes += p.numel();
    return bytes;
  }();
  const int64_t own = hero::dist::ChunkCounts::balanced(gradients, axis.size()).count(axis.rank());
  const int64_t average = 4 * (gradients - own + (axis.size() - 1) * own);
  show(axis, "context parallelism", context_parallel(axis, slices), context_parallel(alone, slices),
       kConfig.n_layer * 2 * part_bytes(axis, keys_values) + loss + average);
}

void experts(const Communicator& axis) {
  constexpr int64_t kTokens = 16, kWidth = 16, kExperts = 24;
  const int64_t ranks = axis.size(), each = kExperts / ranks;
  const auto make = [] {
    hero::manual_seed(3);
    return nn::MoE(kWidth, 32, kExperts, {.top_k = 2, .load_balance_coef = 0.0});
  };
  hero::manual_seed(5);
  const Tensor tokens = hero::randn({ranks * kTokens, kWidth}, {.device = device()});
  const Tensor own = tokens.slice(0, axis.rank() * kTokens, (axis.rank() + 1) * kTokens)
                         .clone()
                         .requires_grad_();  // as what a layer below has computed

  nn::MoE whole = make();  // one process has all tokens and all experts
  whole.to(device());
  const Tensor expected = whole(tokens);
  mean(square(expected)).backward();

  // [snippet: experts]
  nn::MoE moe = make();
  moe.to(device());
  dist::expert_parallel(moe, axis);  // 24 / N experts stay
  axis.traffic().reset();
  const Tensor y = moe(own);   // the tokens travel to their experts, and the results back
  mean(square(y)).backward();  // the gradients travel the same ways
  const int64_t sent = axis.traffic().bytes();
  // [end]

  // how many rows this rank sends to each other rank, and how many come from them
  std::vector<int64_t> to(static_cast<size_t>(ranks));
  const std::vector<int64_t> loads = moe.statistics().tokens_per_expert;
  for (size_t e = 0; e < loads.size(); ++e) to[e / static_cast<size_t>(each)] += loads[e];
  const Array all = Array::empty({ranks * ranks}, hero::kInt64);
  axis.all_gather(all, Array::from(to, {ranks}));
  const std::vector<int64_t> rows = all.to_vector<int64_t>();
  const auto from_to = [&](int64_t from, int64_t r) {
    return rows[static_cast<size_t>(from * ranks + r)];
  };
  int64_t travel = 0;
  RankTable table(axis);
  for (int64_t r = 0; r < ranks; ++r) {
    table.row("rows to rank " + std::to_string(r), from_to(axis.rank(), r));
    if (r != axis.rank()) travel += from_to(axis.rank(), r) + from_to(r, axis.rank());
  }
  const int64_t counts = 8 * kExperts * (ranks - 1) / ranks;
  table.row("sent, bytes", sent).row("formula", 2 * travel * kWidth * 4 + counts);
  table.print("expert parallelism");
  const Tensor results = expected.slice(0, axis.rank() * kTokens, (axis.rank() + 1) * kTokens);
  const Tensor gradient =
      whole.experts.w1.grad().slice(0, axis.rank() * each, (axis.rank() + 1) * each);
  say(axis, "  results: %s\n",
      everywhere(axis, same_bits(y, results)) ? "bitwise identical to one process"
                                              : "NOT those of one process");
  const double apart = amax(abs(moe.experts.w1.grad() - gradient)).item();
  say(axis, "  gradients of the experts: %s\n",
      everywhere(axis, apart == 0.0) ? "bitwise identical to one process"
      : everywhere(axis, apart < 1e-6)  // 1 / N is rounded where N is no power of two
          ? "the same to 6 digits"
          : "NOT those of one process");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "Sequence, context and expert parallelism.";
  return tutorial::run_ranks(argc, argv, {.title = title, .trains = false},
                             [](Communicator& world, auto&) {
                               const Mesh mesh(world, {{"shared", world.size()}});
                               const Mesh each(world, {{"rank", world.size()}, {"shared", 1}});
                               sequences(mesh["shared"], each["shared"]);
                               contexts(mesh["shared"], each["shared"]);
                               experts(mesh["shared"]);
                             });
}
