// Hybrids whose micro-batches are added up within the groups of shards, and averaged over the
// replicas once.
#include <map>
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// H replicas of G shards take `passes` micro-batches each; they meet in the last.
struct LaterRun {
  int replicas = 2, group = 2, passes = 3;
  DType dtype = kFloat32;
  Subject subject = Subject::mlp;

  int ranks() const { return replicas * group; }
};

dist::DataParallel shard_hybrid(nn::Module& model, const dist::Communicator& world,
                                const LaterRun& run) {
  const dist::Mesh mesh(world, {{"replicate", run.replicas}, {"shard", run.group}});
  return dist::fully_shard(model, mesh, {.unit = units_of(run.subject)});
}

std::unique_ptr<nn::Module> make_model(const LaterRun& run) {
  auto model = make_subject(run.subject);
  model->to(run.dtype);
  return model;
}

// The loss of one rank's micro-batch in a pass.
Tensor pass_loss(const LaterRun& run, nn::Module& model, int pass, int rank) {
  return subject_loss(run.subject, model, pass, rank);
}

void add_gradients(Whole& whole, nn::Module& model) {
  for (const auto& [name, p] : model.named_parameters()) {
    if (!p.grad().defined()) continue;
    const Partition* part = partition(p);
    whole.add(name, whole_shape(p).numel(), part ? part->first : 0, p.grad().array());
  }
}

// The passes of one step; all but the last stay within the groups.
void accumulate(const LaterRun& run, nn::Module& model, const dist::DataParallel& fsdp, int rank) {
  for (int pass = 0; pass < run.passes; ++pass) {
    fsdp.set_requires_all_reduce(pass + 1 == run.passes);
    pass_loss(run, model, pass, rank).backward();
  }
}

Array add(const Array& a, const Array& b) { return (Tensor(a) + Tensor(b)).array(); }

// In float32: of each pass the sum of a group of two ranks, these one after the other, then over
// two or three replicas; rounded to the model's dtype once.
void add_expected(Whole& whole, const LaterRun& run) {
  const auto model = make_model(run);
  std::map<std::string, std::vector<Array>> sums;  // of each replica
  for (int k = 0; k < run.replicas; ++k) {
    for (int pass = 0; pass < run.passes; ++pass) {
      std::map<std::string, Array> group;
      for (int i = 0; i < run.group; ++i) {
        pass_loss(run, *model, pass, k * run.group + i).backward();
        for (const auto& [name, p] : model->named_parameters()) {
          if (!p.grad().defined()) continue;
          const Array mine = p.grad().array().to(kFloat32);
          group[name] = i == 0 ? mine.clone() : add(group[name], mine);
          p.set_grad({});
        }
      }
      for (const auto& [name, sum] : group) {
        auto& of = sums[name];
        if (pass == 0) {
          of.push_back(sum);
        } else {
          of.back() = add(of.back(), sum);
        }
      }
    }
  }
  for (const auto& [name, of] : sums) {
    Array all = of[0];
    for (size_t k = 1; k < of.size(); ++k) all = add(all, of[k]);
    const Array mean = (Tensor(all) / static_cast<double>(run.ranks())).array();
    whole.add(name, mean.numel(), 0, mean.to(run.dtype));
  }
}

}  // namespace

TEST_CASE("micro-batches within the groups add up in their order and then over the replicas",
          "[later][threads]") {
  for (const int replicas : {1, 2, 3}) {
    for (const int passes : {1, 2, 3}) {
      for (const DType dtype : {kFloat32, kBFloat16}) {
        for (const Subject subject : {Subject::mlp, Subject::odd}) {
          const LaterRun run{replicas, 2, passes, dtype, subject};
          CAPTURE(replicas, passes, dtype, static_cast<int>(subject));
          Whole expected, got;
          add_expected(expected, run);
          dist::run_ranks(run.ranks(), [&](dist::Communicator& world) {
            const auto model = make_model(run);
            accumulate(run, *model, shard_hybrid(*model, world, run), world.rank());
            add_gradients(got, *model);
          });
          CHECK(expected.size() >= 4);
          CHECK(expected.difference(got) == "");
        }
      }
    }
  }
}

TEST_CASE("the replicas meet once a step however many micro-batches it has", "[later]") {
  for (const int passes : {1, 4}) {
    const LaterRun run{3, 2, passes};
    int64_t psi = 0;
    for (const Tensor& p : make_model(run)->parameters()) psi += p.numel();
    std::map<std::string, int64_t> sent;
    std::mutex mutex;
    dist::run_ranks(run.ranks(), [&](dist::Communicator& world) {
      const auto model = make_model(run);
      const auto fsdp = shard_hybrid(*model, world, run);
      int64_t row = 0;
      for (const dist::UnitInfo& unit : fsdp.units()) row += unit.flat_numel;
      world.traffic().reset();
      accumulate(run, *model, fsdp, world.rank());
      const std::lock_guard<std::mutex> lock(mutex);
      for (const char* axis : {"replicate", "shard"}) {
        sent[axis] += world.traffic().bytes_of_axis(axis);
      }
      sent["row"] = row;
    });
    CAPTURE(passes, psi);
    // by all ranks: of each group's row 2 (H - 1) shards among the replicas, and twice gathered and
    // once reduced a pass within each group
    CHECK(sent["replicate"] == 4 * 2 * (3 - 1) * sent["row"]);
    CHECK(sent["shard"] == 4 * 3 * passes * 3 * (2 - 1) * sent["row"]);
  }
}

TEST_CASE("what waits for the replicas is a shard on every rank", "[later]") {
  const LaterRun run;
  dist::run_ranks(run.ranks(), [&](dist::Communicator& world) {
    const auto model = make_model(run);
    const auto fsdp = shard_hybrid(*model, world, run);
    std::map<std::string, int> reduced;
    fsdp.on_event([&](const dist::Event& event) {
      reduced[event.unit] += event.kind == dist::Event::Kind::reduced ? 1 : 0;
    });
    int64_t own = 0;
    for (const dist::UnitInfo& unit : fsdp.units()) own += unit.own.count;
    for (int pass = 0; pass < 3; ++pass) {
      const bool last = pass == 2;
      fsdp.set_requires_all_reduce(last);
      pass_loss(run, *model, pass, world.rank()).backward();
      expect(current_ledger().live(MemoryTag::gradient) == 4 * own,
             "a shard of gradients: ", current_ledger().live(MemoryTag::gradient));
      for (const auto& [name, p] : model->named_parameters()) {
        expect(p.grad().defined() == last, name, " has its mean in the last pass alone");
      }
      for (const auto& [unit, times] : reduced) expect(times == (last ? 1 : 0), unit);
    }
  });
}

TEST_CASE("units may go to the replicas at different times", "[later]") {
  const LaterRun run{.subject = Subject::gpt};
  dist::run_ranks(run.ranks(), [&](dist::Communicator& world) {
    const auto model = make_model(run);
    const auto fsdp = shard_hybrid(*model, world, run);
    fsdp.set_requires_all_reduce(false, "transformer.h.0");
    pass_loss(run, *model, 0, world.rank()).backward();
    for (const auto& [name, p] : model->named_parameters()) {
      expect(p.grad().defined() != name.starts_with("transformer.h.0."), name);
    }
    fsdp.set_requires_all_reduce(true, "transformer.h.0");
    pass_loss(run, *model, 1, world.rank()).backward();
    for (const auto& [name, p] : model->named_parameters()) expect(p.grad().defined(), name);
    CHECK_THROWS_WITH(fsdp.set_requires_all_reduce(false, "transformer.h.0.mlp"),
                      ContainsSubstring("set_requires_all_reduce: no unit lies at or below"));
    CHECK_THROWS_WITH(fsdp.set_requires_all_reduce(false, "transformer.h.7"),
                      ContainsSubstring("set_requires_all_reduce: there is no module"));
  });
}

namespace {

/// Its second layer is used where the program says so.
struct SkipsOne : nn::Module {
  nn::Linear& first = add<nn::Linear>("first", 7, 5);
  nn::Linear& second = add<nn::Linear>("second", 5, 5);
  bool uses_second = true;
  Tensor forward(const Tensor& x) override {
    const Tensor h = first(x);
    return uses_second ? second(h) : h;
  }
};

}  // namespace

TEST_CASE("what the last pass does not use goes to the replicas all the same", "[later]") {
  for (const bool one_unit : {false, true}) {
    Whole expected, got;
    for (const bool later : {false, true}) {
      dist::run_ranks(4, [&](dist::Communicator& world) {
        SkipsOne model;
        for (const Tensor& p : model.parameters()) {
          p.set_data(Array::full(p.shape(), 0.5));  // every sum is exact in any order
        }
        const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
        dist::FSDPOptions options;
        if (!one_unit) options.unit = dist::each<nn::Linear>();
        const auto fsdp = dist::fully_shard(model, mesh, options);
        for (const bool uses : {true, false}) {
          fsdp.set_requires_all_reduce(!later || !uses);
          model.uses_second = uses;
          sum(model(Tensor(Array::full({2, 7}, 0.25 * (world.rank() + 1))))).backward();
        }
        add_gradients(later ? got : expected, model);
      });
    }
    CAPTURE(one_unit);
    CHECK(expected.size() == 4);
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("an error between two micro-batches leaves everything between two steps", "[later]") {
  const LaterRun run{.passes = 2};
  Whole expected, got;
  for (const bool fails : {false, true}) {
    dist::run_ranks(run.ranks(), [&](dist::Communicator& world) {
      const auto model = make_model(run);
      const auto fsdp = shard_hybrid(*model, world, run);
      if (fails) {
        fsdp.set_requires_all_reduce(false);
        pass_loss(run, *model, 5, world.rank()).backward();
        const Tensor loss = pass_loss(run, *model, 6, world.rank());
        fsdp.on_event([](const dist::Event& event) {
          check(event.kind != dist::Event::Kind::reduce || event.unit != "fc2", "stopped at fc2");
        });
        CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("stopped at fc2"));
        fsdp.on_event({});
        fsdp.module().zero_grad();
      }
      accumulate(run, *model, fsdp, world.rank());
      expect(current_ledger().live(MemoryTag::communication) == 0, "nothing is gathered");
      add_gradients(fails ? got : expected, *model);
    });
  }
  CHECK(expected.size() == 6);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("without replicas it changes nothing when the all_reduce is put off", "[later]") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    Whole expected, got;
    for (const bool off : {false, true}) {
      dist::run_ranks(2, [&](dist::Communicator& world) {
        const auto model = make_subject(Subject::mlp);
        const dist::DataParallel parallel =
            strategy == ShardingStrategy::ddp ? dist::DataParallel(dist::DDP(*model, world))
            : strategy == ShardingStrategy::fsdp
                ? dist::fully_shard(*model, world, {.unit = dist::each<nn::Linear>()})
                : dist::DataParallel(
                      dist::ZeRO(*model, world,
                                 {.stage = static_cast<int>(strategy) -
                                           static_cast<int>(ShardingStrategy::zero1) + 1}));
        if (off) parallel.set_requires_all_reduce(false);
        for (int pass = 0; pass < 2; ++pass) {
          subject_loss(Subject::mlp, *model, pass, world.rank()).backward();
        }
        add_gradients(off ? got : expected, *model);
      });
    }
    CHECK(expected.size() == 6);
    CHECK(expected.difference(got) == "");
  }
}
