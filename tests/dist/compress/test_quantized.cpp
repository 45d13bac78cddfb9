// FSDP whose gathers and reductions travel in bytes: what ranks compute with, what they add up, and
// what they send.
#include <cmath>
#include <filesystem>

#include "dist/compress/one_bit.h"
#include "support/catch.h"

#include <hero/core/functions/codec.h>
#include <hero/core/swap_file.h>
#include <hero/dist/fsdp.h>

using namespace hero;
using namespace hero::test;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

namespace {

// 91, 143 and 55 elements, each a unit; no bias, so that a unit's row is its weight and zeros.
struct Layers : nn::Module {
  static constexpr nn::LinearOptions kBare = {.bias = false};
  nn::Linear& fc1 = add<nn::Linear>("fc1", 7, 13, kBare);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 13, 11, kBare);
  nn::Linear& fc3 = add<nn::Linear>("fc3", 11, 5, kBare);
  Tensor forward(const Tensor& x) override { return fc3(tanh(fc2(relu(fc1(x))))); }
};

Tensor loss_of(nn::Module& model, int step, int rank) {
  const auto seed = static_cast<uint64_t>(100 * step + rank + 1);
  return sum(square(model(Tensor(noise({2, 7}, kFloat32, seed)))));
}

// Elements of a shard.
int64_t row_of(int64_t numel, int shards, int replicas = 1) {
  const int64_t unit = int64_t{8} * shards * replicas;
  return (numel + unit - 1) / unit * unit / shards;
}

// What a row of `row` elements for each of `parts` ranks is when each rank's part went in the
// codec's bytes.
Floats through(Codec codec, const Floats& values, int parts, int64_t row) {
  Floats padded = values;
  padded.resize(static_cast<size_t>(row * parts), 0.0f);
  Floats out;
  for (int r = 0; r < parts; ++r) {
    const Floats part(padded.begin() + r * row, padded.begin() + (r + 1) * row);
    const Array x = Array::from(part, {row}), back = Array::empty({row});
    const Array bytes = Array::empty({1, core::encoded_bytes(codec, row)}, kUInt8);
    core::encode(codec, x, row, bytes);
    core::decode(codec, bytes, row, back);
    const Floats some = back.to_vector<float>();
    out.insert(out.end(), some.begin(), some.end());
  }
  out.resize(values.size());
  return out;
}

void add_to(Floats& sum, const Floats& more) {
  if (sum.empty()) {
    sum = more;
  } else {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
}

// The sum of a group's gradients, in hosts of q.ranks_of_host.
Floats group_sum(const Quantize& q, const std::vector<Floats>& gradients, int64_t row) {
  const auto shards = static_cast<int>(gradients.size());
  const int places = q.ranks_of_host, hosts = shards / places;
  Floats sum;
  if (!q.gradients) {
    for (const Floats& gradient : gradients) add_to(sum, gradient);
  } else if (places == 1 || hosts == 1) {
    for (const Floats& gradient : gradients) {
      add_to(sum, through(*q.gradients, gradient, shards, row));
    }
  } else {
    for (int h = 0; h < hosts; ++h) {
      Floats within;
      for (int g = 0; g < places; ++g) {
        const auto r = static_cast<size_t>(h * places + g);
        add_to(within, through(*q.gradients, gradients[r], shards, row));
      }
      add_to(sum, through(*q.gradients, within, shards, row));
    }
  }
  return sum;
}

// How many ranks, of which each `replicas`-th part has all shards.
struct World {
  int ranks = 1, replicas = 1;
  int shards() const { return ranks / replicas; }
};

// One process that does what ranks do; its masters after the steps.
std::vector<Floats> simulate(const Quantize& q, World world, int steps, double lr) {
  manual_seed(7);
  Layers model;
  const std::vector<Tensor> parameters = model.parameters();
  std::vector<Floats> masters;
  for (const Tensor& p : parameters) masters.push_back(flat_of(std::vector<Tensor>{p}));
  const auto row = [&](size_t i) {
    return row_of(static_cast<int64_t>(masters[i].size()), world.shards(), world.replicas);
  };
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      write_flat(q.weights ? through(*q.weights, masters[i], world.shards(), row(i)) : masters[i],
                 {parameters[i]});
    }
    std::vector<Floats> sums(parameters.size());
    for (int replica = 0; replica < world.replicas; ++replica) {
      std::vector<std::vector<Floats>> gradients(parameters.size());
      for (int r = 0; r < world.shards(); ++r) {
        for (const Tensor& p : parameters) p.set_grad({});
        loss_of(model, step, replica * world.shards() + r).backward();
        for (size_t i = 0; i < parameters.size(); ++i) {
          gradients[i].push_back(flat_of(std::vector<Tensor>{parameters[i].grad()}));
        }
      }
      for (size_t i = 0; i < sums.size(); ++i) add_to(sums[i], group_sum(q, gradients[i], row(i)));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      for (size_t j = 0; j < sums[i].size(); ++j) {
        const float mean = sums[i][j] / static_cast<float>(world.ranks);
        masters[i][j] = masters[i][j] - static_cast<float>(lr) * mean;
      }
    }
  }
  return masters;
}

struct Run {
  Quantize quantize = {};
  int replicas = 1;
  Offload offload = {};
};

std::vector<Floats> train(const Communicator& world, const Run& run, int steps, double lr,
                          std::vector<int64_t>* bytes = nullptr) {
  manual_seed(7);
  Layers model;
  const FSDPOptions options = {
      .unit = each<nn::Linear>(), .offload = run.offload, .quantize = run.quantize};
  const DataParallel fsdp =
      run.replicas == 1
          ? fully_shard(model, world, options)
          : fully_shard(
                model,
                Mesh(world, {{"replicate", run.replicas}, {"shard", world.size() / run.replicas}}),
                options);
  optim::SGD sgd(model.parameters(), {.lr = lr});
  for (int step = 0; step < steps; ++step) {
    world.traffic().reset();
    loss_of(model, step, world.rank()).backward();
    sgd.step();
    sgd.zero_grad();
  }
  if (bytes) {
    *bytes = {world.traffic().bytes(), world.traffic().bytes_of_axis("within hosts"),
              world.traffic().bytes_of_axis("between hosts"),
              world.traffic().bytes_of_axis("replicate")};
  }
  const auto whole = fsdp.summon_full_parameters();
  std::vector<Floats> values;
  for (const Tensor& p : model.parameters()) values.push_back(flat_of(std::vector<Tensor>{p}));
  return values;
}

void check_against_simulation(World world, const Run& run) {
  const std::vector<Floats> expected = simulate(run.quantize, world, 3, 0.01);
  run_ranks(world.ranks, [&](Communicator& comm) {
    const std::vector<Floats> got = train(comm, run, 3, 0.01);
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string off = unlike(got[i], expected[i]);
      expect(off.empty(), "parameter ", i, " on rank ", comm.rank(), ": ", off);
    }
  });
}

constexpr int64_t kSizes[] = {91, 143, 55};

}  // namespace

TEST_CASE("quantized: gathers and reductions have the bits of one process that simulates them") {
  const std::vector<std::pair<int, Quantize>> cases = {
      {2, {.weights = Codec::int8, .gradients = Codec::int8}},
      {3, {.weights = Codec::int8, .gradients = Codec::int4}},
      {4, {.weights = Codec::fp8_e4m3, .gradients = Codec::fp8_e5m2}},
      {4, {.gradients = Codec::int4}},
      {4, {.weights = Codec::int8, .gradients = Codec::int4, .ranks_of_host = 2}},
      {6, {.gradients = Codec::int8, .ranks_of_host = 3}},
      {4, {.gradients = Codec::int8, .ranks_of_host = 4}},
      {4,
       {.weights = Codec::int8, .gradients = Codec::int4, .secondary = true, .ranks_of_host = 2}},
  };
  for (const auto& [ranks, q] : cases) {
    CAPTURE(ranks, q.ranks_of_host, q.secondary, q.weights.has_value());
    check_against_simulation({.ranks = ranks}, {.quantize = q});
  }
}

TEST_CASE("quantized: on a hybrid the groups' sums travel in bytes and the replicas' do not") {
  const std::vector<std::pair<int, Quantize>> cases = {
      {4, {.gradients = Codec::int8}},
      {6, {.weights = Codec::int8, .gradients = Codec::int4}},
      {8,
       {.weights = Codec::int8, .gradients = Codec::int4, .secondary = true, .ranks_of_host = 2}},
  };
  for (const auto& [ranks, q] : cases) {
    CAPTURE(ranks, q.ranks_of_host, q.secondary, q.weights.has_value());
    check_against_simulation({.ranks = ranks, .replicas = 2}, {.quantize = q, .replicas = 2});
  }
  run_ranks(4, [](Communicator& world) {
    std::vector<int64_t> sent;
    train(world, {.quantize = {.gradients = Codec::int4}, .replicas = 2}, 2, 0.01, &sent);
    int64_t gathered = 0, within = 0, between = 0;
    for (const int64_t n : {91, 143, 55}) {
      const int64_t row = row_of(n, 2, 2);
      gathered += 2 * 4 * row;
      within += core::encoded_bytes(Codec::int4, row);
      between += 2 * (4 * row) / 2;
    }
    expect(sent[0] == gathered + within + between, "sent ", sent[0], ", not ", gathered, " + ",
           within, " + ", between);
    expect(sent[3] == between, "the replicas sent ", sent[3], ", not ", between);
  });
}

TEST_CASE("quantized: gradients of several passes, which a hybrid's replicas add up at the end") {
  run_ranks(4, [](Communicator& world) {
    const auto ended = [&](bool later) {
      manual_seed(7);
      Layers model;
      const DataParallel fsdp =
          fully_shard(model, Mesh(world, {{"replicate", 2}, {"shard", 2}}),
                      {.unit = each<nn::Linear>(), .quantize = {.gradients = Codec::int8}});
      fsdp.set_requires_all_reduce(!later);
      world.traffic().reset();
      loss_of(model, 0, world.rank()).backward();
      fsdp.set_requires_all_reduce(true);
      const int64_t sent = world.traffic().bytes_of_axis("replicate");
      expect(later == (sent == 0), "sent to replicas: ", sent);
      loss_of(model, 1, world.rank()).backward();
      std::vector<Tensor> gradients;
      for (const Tensor& p : model.parameters()) gradients.push_back(p.grad());
      return flat_of(gradients);
    };
    const Floats at_once = ended(false), later = ended(true);
    for (size_t i = 0; i < at_once.size(); ++i) {
      // the same numbers in another order: float32, magnitudes below 100
      expect(std::fabs(at_once[i] - later[i]) < 1e-4, "element ", i);
    }
  });
}

TEST_CASE("quantized: shards in a file have the bits of shards in memory") {
  core::SwapFile disk(std::filesystem::temp_directory_path().string(), {.bytes = 1 << 20});
  const Quantize both = {.weights = Codec::int8, .gradients = Codec::int4};
  check_against_simulation({.ranks = 3}, {.quantize = both, .offload = {.disk = &disk}});
  Quantize hosts = both;
  hosts.secondary = true;
  hosts.ranks_of_host = 2;
  check_against_simulation({.ranks = 4}, {.quantize = hosts, .offload = {.disk = &disk}});
  CHECK(disk.read_bytes() > 0);
  CHECK(disk.used() == 0);
}

TEST_CASE("quantized: bytes are those of the formulas, within hosts and between them") {
  run_ranks(4, [](Communicator& world) {
    const auto sum_of = [](const auto& bytes) {
      int64_t all = 0;
      for (const int64_t n : kSizes) all += bytes(row_of(n, 4));
      return all;
    };
    const auto encoded = [](Codec codec, int64_t row) { return core::encoded_bytes(codec, row); };
    std::vector<int64_t> sent;
    train(world, {.quantize = {.weights = Codec::int8}}, 2, 0.01, &sent);
    // each unit is gathered for forward and for backward
    int64_t expected =
        sum_of([&](int64_t row) { return 3 * (2 * encoded(Codec::int8, row) + 4 * row); });
    expect(sent[0] == expected, "qwZ sent ", sent[0], ", not ", expected);
    train(world, {.quantize = {.gradients = Codec::int4}}, 2, 0.01, &sent);
    expected = sum_of([&](int64_t row) { return 3 * (2 * 4 * row + encoded(Codec::int4, row)); });
    expect(sent[0] == expected, "qgZ sent ", sent[0], ", not ", expected);
    train(world, {.quantize = {.gradients = Codec::int4, .ranks_of_host = 2}}, 2, 0.01, &sent);
    // G = 2, H = 2: (G - 1) H parts within the host, H - 1 between
    expected = sum_of([&](int64_t row) { return 2 * encoded(Codec::int4, row); });
    expect(sent[1] == expected, "qgZ sent ", sent[1], " within a host, not ", expected);
    expect(2 * sent[2] == expected, "qgZ sent ", sent[2], " between hosts");
    train(world, {.quantize = {.secondary = true, .ranks_of_host = 2}}, 2, 0.01, &sent);
    expected = sum_of([&](int64_t row) { return 4 * 2 * row; });  // (G - 1) n / G elements
    expect(sent[1] == expected, "hpZ sent ", sent[1], " within a host, not ", expected);
    expected += sum_of([&](int64_t row) { return 3 * (4 * row + 4 * row); });
    expect(sent[0] == expected, "hpZ sent ", sent[0], ", not ", expected);
  });
}

TEST_CASE("quantized: a secondary shard changes no bit, also where nothing is quantised") {
  run_ranks(4, [](Communicator& world) {
    const std::vector<Floats> plain = train(world, {}, 4, 0.05);
    const auto kept_in_hosts = [&](int ranks) {
      return train(world, {.quantize = {.secondary = true, .ranks_of_host = ranks}}, 4, 0.05);
    };
    const std::vector<Floats> kept = kept_in_hosts(2), all = kept_in_hosts(4);
    for (size_t i = 0; i < plain.size(); ++i) {
      expect(unlike(kept[i], plain[i]).empty(), "hosts of 2: ", unlike(kept[i], plain[i]));
      expect(unlike(all[i], plain[i]).empty(), "hosts of 4: ", unlike(all[i], plain[i]));
    }
  });
}

TEST_CASE("quantized: members without a gradient, and parts that are not equal") {
  run_ranks(3, [](Communicator& world) {
    // a frozen layer in the same unit: parts of the others are no longer equal
    manual_seed(3);
    Layers model;
    model.fc2.weight.requires_grad_(false);
    const DataParallel fsdp = fully_shard(model, world, {.quantize = {.gradients = Codec::int8}});
    manual_seed(3);
    Layers same;
    same.fc2.weight.requires_grad_(false);
    const DataParallel other = fully_shard(same, world);
    loss_of(model, 0, world.rank()).backward();
    loss_of(same, 0, world.rank()).backward();
    const auto got = model.parameters(), expected = same.parameters();
    for (size_t i = 0; i < got.size(); ++i) {
      expect(got[i].grad().defined() == expected[i].grad().defined(), "which have gradients");
      if (!got[i].grad().defined()) continue;
      const Floats a = flat_of(std::vector<Tensor>{got[i].grad()});
      const Floats b = flat_of(std::vector<Tensor>{expected[i].grad()});
      for (size_t j = 0; j < a.size(); ++j) {
        // three ranks' halves of a step of m / 127, m below 200
        expect(std::fabs(a[j] - b[j]) < 1.0, "element ", j, ": ", a[j], " ", b[j]);
      }
    }
  });
}

TEST_CASE("quantized: a GPT learns as it does without") {
  run_ranks(2, [](Communicator& world) {
    const auto gain = [&](const Quantize& quantize) {
      const auto model = make_subject(Subject::gpt);
      fully_shard(*model, world, {.unit = each<nn::Block>(), .quantize = quantize});
      optim::AdamW adamw(model->parameters(), {.lr = 0.01});
      double first = 0.0, last = 0.0;
      for (int step = 0; step < 30; ++step) {
        const Tensor loss = subject_loss(Subject::gpt, *model, 0, world.rank());
        loss.backward();
        adamw.step();
        adamw.zero_grad();
        (step == 0 ? first : last) = loss.item();
      }
      return first - last;
    };
    const double exact = gain({});
    const double bytes = gain({.weights = Codec::int8, .gradients = Codec::int8});
    expect(exact > 1.5 && bytes > 0.9 * exact, "losses fall by ", bytes, " and ", exact);
  });
}

TEST_CASE("quantized: what does not go together is an error that says what does") {
  const auto error = [](const FSDPOptions& options) {
    return errors_of(4, [&](Communicator& world) {
      Layers model;
      fully_shard(model, world, options);
    })[0];
  };
  CHECK_THAT(error({.quantize = {.gradients = Codec::int8, .ranks_of_host = 3}}),
             ContainsSubstring("quantize.ranks_of_host 3 does not divide 4 ranks"));
  CHECK_THAT(
      error({.quantize = {.secondary = true}}),
      ContainsSubstring("quantize.secondary keeps a part within each host; say ranks_of_host"));
}
