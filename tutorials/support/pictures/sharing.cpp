#include "support/pictures/sharing.h"

#include <algorithm>

#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

#include <hero/autograd/ops.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/launch.h>
#include <hero/nn/data/sampler.h>
#include <hero/nn/gpt.h>
#include <hero/nn/moe.h>

namespace tutorial {

namespace {

using hero::Array, hero::Tensor;

constexpr int kRanks = 4;
constexpr const char* kEmpty = "#f4f4f4";

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

void draw_context(const Communicator& world, const std::string& folder) {
  if (world.size() < kRanks) return;
  constexpr int64_t kT = 16;
  const bool inside = world.rank() < kRanks;
  const Communicator axis = world.split(inside ? 0 : -1, world.rank(), "context");
  if (!inside) return;
  hero::nn::GPT model({.vocab_size = 8, .block_size = kT, .n_layer = 1, .n_head = 1, .n_embd = 8});
  const auto mine = hero::dist::context_parallel(model, axis).positions(kT);
  const Array all = Array::empty({kT}, hero::kInt64);
  axis.all_gather(all, Array::from(mine, {kT / kRanks}));
  if (world.rank() > 0) return;

  int owner[kT], pairs[kRanks] = {};
  const std::vector<int64_t> positions = all.to_vector<int64_t>();
  for (int64_t i = 0; i < kT; ++i) {
    const int rank = static_cast<int>(i / (kT / kRanks));
    const int64_t query = positions[static_cast<size_t>(i)];
    owner[query] = rank;
    pairs[rank] += static_cast<int>(query) + 1;
  }
  Figure figure("Causal attention of 16 positions on four ranks", "", "");
  for (int query = 0; query < kT; ++query) {
    const char* colour = kRankColours[owner[query]];
    for (int key = 0; key < kT; ++key) {
      figure.box(key + 0.05, -query - 0.95, 0.9, 0.9, key <= query ? colour : kEmpty);
    }
    figure.label("query " + std::to_string(query), -0.2, -query - 0.5, "#555555", Align::right);
    figure.label(rank_text(owner[query]), kT + 0.2, -query - 0.5, "#333333", Align::left);
  }
  figure.label("keys 0 to 15 →", kT / 2.0, 0.6, "#555555");
  for (int rank = 0; rank < kRanks; ++rank) {
    const double x = (rank + 0.5) * kT / kRanks;
    figure.box(x - 1.9, -kT - 2.3, 3.8, 2.0, kRankColours[rank],
               rank_text(rank) + "\n" + std::to_string(pairs[rank]) + " pairs");
  }
  figure.x_range(-3.7, kT + 2.9).y_range(-kT - 2.5, 1.2).height(680);
  figure.bare().save(folder, "19_context");
}

void draw_experts(const std::string& folder) {
  constexpr int kTokens = 4, kExperts = 8, kChosen = 2, kWidth = 8;
  constexpr int kPerRank = kExperts / kRanks;
  const hero::NoGrad no_grad;
  const hero::nn::DeviceScope on_cpu(hero::kCpu);  // wherever the chapter's models lie
  hero::manual_seed(3);
  hero::nn::MoE moe(kWidth, 2 * kWidth, kExperts, {.top_k = kChosen});
  const Tensor tokens = hero::randn({kRanks * kTokens, kWidth});
  const std::vector<int64_t> chosen =
      topk(moe.router(tokens), kChosen).indices.to_vector<int64_t>();

  Figure figure("Which experts the tokens of four ranks are sent to", "", "");
  const auto at = [](int i, int each) {  // with gaps between ranks
    const int gaps = i / each;
    return i + 0.35 * gaps;
  };
  for (int token = 0; token < kRanks * kTokens; ++token) {
    const double y = -at(token, kTokens);
    for (int expert = 0; expert < kExperts; ++expert) {
      const auto* choice = &chosen[static_cast<size_t>(token) * kChosen];
      const bool sent = choice[0] == expert || choice[1] == expert;
      const bool stays = expert / kPerRank == token / kTokens;
      figure.box(at(expert, kPerRank) * 1.6, y - 0.92, 1.5, 0.84,
                 sent ? kRankColours[expert / kPerRank] : kEmpty, sent && stays ? "stays" : "");
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const double top = -at(rank * kTokens, kTokens);
    figure.label("tokens of\n" + rank_text(rank), -0.2, top - kTokens / 2.0, "#333333",
                 Align::right);
    const double left = 1.6 * at(rank * kPerRank, kPerRank);
    figure.label("experts of\n" + rank_text(rank), left + 1.55, 2.0, "#333333");
    for (int i = 0; i < kPerRank; ++i) {
      figure.label(std::to_string(rank * kPerRank + i), left + 1.6 * i + 0.75, 0.4, "#555555");
    }
  }
  const double right = 1.6 * at(kExperts - 1, kPerRank) + 1.6;
  figure.x_range(-2.9, right + 0.1).y_range(-at(kRanks * kTokens, kTokens) - 0.1, 3.0).height(700);
  figure.bare().save(folder, "19_experts");
}

namespace {

// Ends of the parts of a block's parameters on so many ranks, without what pads the last ones.
std::vector<int64_t> part_ends(int ranks, int64_t& numel) {
  std::vector<int64_t> ends;
  hero::dist::simulate_ranks(
      ranks,
      [&](Communicator& world) {
        const hero::nn::DeviceScope meta(hero::kMeta);
        hero::nn::GPT model(
            {.vocab_size = 64, .block_size = 32, .n_layer = 1, .n_head = 4, .n_embd = 64});
        const auto sharded =
            hero::dist::fully_shard(model, world, {.unit = hero::dist::each<hero::nn::Block>()});
        for (const auto& unit : sharded.units()) {
          if (unit.name != "transformer.h.0") continue;
          numel = unit.numel;
          for (int rank = 1; rank <= ranks; ++rank) {
            ends.push_back(std::min(numel, rank * (unit.flat_numel / ranks)));
          }
        }
      },
      {0});
  return ends;
}

}  // namespace

void draw_resumed(const std::string& folder) {
  Figure figure("A block's parameters in a checkpoint of four ranks, and who reads them", "", "");
  int64_t numel = 0;
  const std::vector<int64_t> saved = part_ends(kRanks, numel);
  const double all = static_cast<double>(numel), gap = 0.003 * all;
  double y = 0.0;
  for (const int ranks : {kRanks, 3, 1}) {
    const std::vector<int64_t> read = part_ends(ranks, numel);
    int64_t begin = 0;
    for (size_t rank = 0; rank < read.size(); ++rank) {
      const double left = static_cast<double>(begin), right = static_cast<double>(read[rank]);
      figure.label(rank_text(static_cast<int>(rank)) + "\n" + std::to_string(read[rank] - begin),
                   0.5 * (left + right), y + 0.4, "#111111");
      figure.box(left + gap, y - 1.04, right - left - 2 * gap, 1.0, "#555555");
      int64_t from = begin;
      for (size_t part = 0; part < saved.size(); ++part) {
        const int64_t to = std::min(saved[part], read[rank]);
        if (to <= from) continue;
        const double low = from == begin ? 2 * gap : 0.5 * gap;  // within the frame
        const double high = to == read[rank] ? 2 * gap : 0.5 * gap;
        figure.box(static_cast<double>(from) + low, y - 0.98,
                   static_cast<double>(to - from) - low - high, 0.88, kRankColours[part],
                   std::to_string(part));
        from = to;
      }
      begin = read[rank];
    }
    const std::string text = ranks == kRanks ? "shards 0 to 3, saved by 4 ranks"
                             : ranks == 1    ? "resumed on 1 rank"
                                             : "resumed on 3 ranks";
    figure.label(text, gap, y + 1.15, "#333333", Align::left);
    y -= 2.9;
  }
  figure.x_range(-gap, all + gap).y_range(y + 1.7, 1.5).height(700);
  figure.bare().save(folder, "12_resumed");
}

void draw_order(const std::string& folder) {
  constexpr int kSamples = 24, kBatch = 4, kTwo = 2;
  constexpr int kColumns = kSamples / kBatch / kTwo;
  Figure figure("Three epochs of 24 samples on two ranks, in batches of four", "", "");
  constexpr double kAcross = kBatch + 0.35;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const double top = -3.2 * epoch;
    figure.label("epoch " + std::to_string(epoch), -0.2, top + 0.45, "#333333", Align::right);
    for (int rank = 0; rank < kTwo; ++rank) {
      const double y = top - rank;
      figure.label(rank_text(rank), -0.2, y - 0.5, "#333333", Align::right);
      hero::nn::data::DistributedSampler sampler(
          kSamples, {.num_replicas = kTwo, .rank = rank, .seed = 1, .turn = kBatch});
      sampler.set_epoch(epoch);
      const std::vector<int64_t> mine = sampler.indices();
      for (size_t i = 0; i < mine.size(); ++i) {
        const int at = static_cast<int>(i);
        const int column = at / kBatch;
        const double x = column * kAcross + at % kBatch;
        figure.box(x + 0.04, y - 0.96, 0.92, 0.92, kRankColours[rank], std::to_string(mine[i]));
      }
    }
  }
  for (int batch = 0; batch < kColumns; ++batch) {
    const std::string text =
        "batches " + std::to_string(kTwo * batch) + ", " + std::to_string(kTwo * batch + 1);
    figure.label(text, batch * kAcross + kBatch / 2.0, 0.45, "#333333");
  }
  figure.x_range(-3.2, kColumns * kAcross - 0.25).y_range(-8.5, 0.9).height(470);
  figure.bare().save(folder, "11_order");
}

}  // namespace tutorial
