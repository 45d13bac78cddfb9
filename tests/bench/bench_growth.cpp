// How the time and memory of one case grow with its size. tests/bench/growth runs every case at
// every size, each in a process of its own, and fits exponents.
//   bench_growth                     lists the cases: name, order of the work, sizes
//   bench_growth CASE SIZE [ROUNDS [RANKS]]
//                                    "seconds bytes bytes_resident": the least processor time of a
//                                    round, over all threads; the peak of the ledger (0 where ranks
//                                    have ledgers of their own); what the process grew by. Cases of
//                                    sharding run on RANKS ranks, 2 by default.
// Kernels run on one thread. Ranks are threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>
#include <hero/core/thread_pool.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/nn/training/training.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

// A folder in memory, which ends with it.
class Folder {
 public:
  Folder() {
    const char* const memory = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    path_ = std::string(memory) + "/hero-growth-XXXXXX";
    check(::mkdtemp(path_.data()) != nullptr, "growth: no folder can be made in ", memory);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What is measured; its name tells callgrind, see tests/bench/growth.
extern "C" [[gnu::noipa]] void hero_growth_counted(const std::function<void()>& work) { work(); }

// What a round does; what it needs is made before.
using Round = std::function<void()>;
using Prepare = std::function<Round(int64_t size)>;

struct Case {
  const char* name;
  double order;  // of the work; its exponent is to be at most that
  std::vector<int64_t> sizes;
  Prepare prepare;
};

// Steps of a GPT, each axis alone.

struct Sizes {
  int64_t batch = 1, sequence = 64, width = 64, layers = 2, vocabulary = 256;
};

struct Training {
  explicit Training(const Sizes& s)
      : model({.vocab_size = s.vocabulary,
               .block_size = s.sequence,
               .n_layer = s.layers,
               .n_head = 2,
               .n_embd = s.width}),
        adamw(model.parameters(), {.lr = 1e-4}),
        tokens(randint(0, s.vocabulary, {s.batch, s.sequence})),
        targets(randint(0, s.vocabulary, {s.batch, s.sequence})) {}
  void step() {
    adamw.zero_grad();
    model.loss(tokens, targets).backward();
    adamw.step();
  }
  nn::GPT model;
  optim::AdamW adamw;
  Tensor tokens, targets;
};

Prepare step_over(int64_t Sizes::*axis, const Sizes& others = {}) {
  return [=](int64_t size) {
    Sizes sizes = others;
    sizes.*axis = size;
    return [training = std::make_shared<Training>(sizes)] {
      hero_growth_counted([&] { training->step(); });
    };
  };
}

// Bookkeeping, over the number of parameters: layers of two tensors, a weight of 2 x 2 and a bias.

std::unique_ptr<nn::Sequential> layers_of(int64_t parameters) {
  auto model = std::make_unique<nn::Sequential>();
  for (int64_t i = 0; i < parameters / 2; ++i) model->append<nn::Linear>(2, 2);
  return model;
}

struct Many {
  explicit Many(int64_t parameters)
      : model(layers_of(parameters)), adamw(model->parameters(), {.lr = 1e-4}) {
    for (const Tensor& p : adamw.parameters()) p.set_grad(ones(p.shape()));
    adamw.step();
  }
  std::unique_ptr<nn::Sequential> model;
  optim::AdamW adamw;
  Folder folder;
};

Prepare with_many(const std::function<void(Many&)>& round) {
  return [round](int64_t parameters) {
    return [round, many = std::make_shared<Many>(parameters)] {
      hero_growth_counted([&] { round(*many); });
    };
  };
}

void track(auto& checkpoint, Many& many) {
  checkpoint.track("model", *many.model);
  checkpoint.track("adamw", many.adamw);
}

// The same on ranks. A round runs all that a program does from its beginning.

int sharding_ranks = 2;

Prepare on_ranks(const std::function<void(dist::Communicator&, int64_t)>& program) {
  return [=](int64_t size) {
    return [=] {
      dist::run_ranks(sharding_ranks, [&](dist::Communicator& world) {
        hero_growth_counted([&] { program(world, size); });
      });
    };
  };
}

// Over the number of ranks.
Prepare over_ranks(const std::function<void(dist::Communicator&)>& program) {
  return [=](int64_t ranks) {
    return [=] {
      dist::run_ranks(static_cast<int>(ranks), [&](dist::Communicator& world) {
        hero_growth_counted([&] { program(world); });
      });
    };
  };
}

void steps_of(nn::Module& model, const std::vector<Tensor>& parameters, int steps) {
  optim::AdamW adamw(parameters, {.lr = 1e-4});
  const Tensor x = ones({1, 2});
  for (int i = 0; i < steps; ++i) {
    adamw.zero_grad();
    sum(model(x)).backward();
    adamw.step();
  }
}

const dist::FSDPOptions kEachLayer = {.unit = dist::each<nn::Linear>()};

const std::vector<int64_t> kParameters = {320, 1280, 5120, 20480};
const std::vector<int64_t> kRanks = {1, 2, 4, 8, 16, 32, 64};

std::vector<Case> training_cases() {
  return {
      {"step/batch", 1, {1, 4, 16, 64, 256}, step_over(&Sizes::batch)},
      // attention is quadratic: memory alone is to be linear
      {"step/sequence", 2, {256, 1024, 4096, 16384}, step_over(&Sizes::sequence, {.width = 32})},
      {"step/width", 2, {64, 128, 256, 512, 1024}, step_over(&Sizes::width)},
      {"step/depth", 1, {3, 12, 50, 200}, step_over(&Sizes::layers, {.sequence = 32})},
      {"step/vocabulary",
       1,
       {1024, 4096, 16384, 65536, 262144},
       step_over(&Sizes::vocabulary, {.sequence = 32})},
      {"step/parameters", 1, kParameters, with_many([](Many& m) {
         m.adamw.zero_grad();
         sum((*m.model)(ones({1, 2}))).backward();
         m.adamw.step();
       })},
  };
}

std::vector<Case> module_cases() {
  return {
      {"module/make", 1, kParameters,
       [](int64_t parameters) {
         return [=] { hero_growth_counted([&] { layers_of(parameters); }); };
       }},
      {"module/named_parameters", 1, kParameters,
       with_many([](Many& m) { m.model->named_parameters(); })},
      {"module/named_modules", 1, kParameters,
       with_many([](Many& m) { m.model->named_modules(); })},
      {"module/zero_grad", 1, kParameters, with_many([](Many& m) { m.model->zero_grad(); })},
      {"module/to", 1, kParameters, with_many([](Many& m) {
         m.model->to(kBFloat16);
         m.model->to(kFloat32);
       })},
      {"module/text", 1, kParameters, with_many([](Many& m) { to_string(*m.model); })},
      {"module/summary", 1, kParameters, with_many([](Many& m) { nn::summary(*m.model); })},
      {"module/state_dict", 1, kParameters, with_many([](Many& m) { m.model->state_dict(); })},
      {"module/load_state_dict", 1, kParameters,
       with_many([](Many& m) { m.model->load_state_dict(m.model->state_dict()); })},
      {"module/save", 1, kParameters,
       with_many([](Many& m) { m.model->save(m.folder / "model.safetensors"); })},
      {"module/load", 1, kParameters, with_many([](Many& m) {
         const std::string path = m.folder / "model.safetensors";
         if (!std::filesystem::exists(path)) m.model->save(path);
         m.model->load(path);
       })},
      {"module/checkpoint", 1, kParameters, with_many([](Many& m) {
         nn::Checkpointer checkpoint(m.folder / "run");
         track(checkpoint, m);
         checkpoint.resume();
         checkpoint.save(1);
         checkpoint.resume();
       })},
  };
}

std::vector<Case> optimizer_cases() {
  return {
      {"optimizer/make", 1, kParameters,
       with_many([](Many& m) { optim::AdamW(m.adamw.parameters(), {.lr = 1e-4}); })},
      {"optimizer/step", 1, kParameters, with_many([](Many& m) { m.adamw.step(); })},
      {"optimizer/zero_grad", 1, kParameters, with_many([](Many& m) { m.adamw.zero_grad(); })},
      {"optimizer/clip_grad_norm", 1, kParameters,
       with_many([](Many& m) { optim::clip_grad_norm(m.adamw.parameters(), 1.0); })},
      {"optimizer/state_dict", 1, kParameters, with_many([](Many& m) { m.adamw.state_dict(); })},
      {"optimizer/load_state_dict", 1, kParameters,
       with_many([](Many& m) { m.adamw.load_state_dict(m.adamw.state_dict()); })},
      {"optimizer/groups", 1, kParameters, with_many([](Many& m) {
         std::vector<optim::AdamW::Group> groups;
         for (const Tensor& p : m.adamw.parameters()) groups.push_back({{p}, {.lr = 1e-4}});
         optim::AdamW adamw(groups);
         adamw.set_lr(2e-4);
         adamw.step();
       })},
      {"optimizer/masters", 1, kParameters, with_many([](Many& m) {
         m.model->to(kBFloat16);
         optim::AdamW adamw(m.adamw.parameters(), {.lr = 1e-4});
         adamw.use_master_weights();
         adamw.step();
         adamw.load_state_dict(adamw.state_dict());
       })},
  };
}

std::vector<Case> sharding_cases() {
  return {
      {"sharding/ddp", 1, kParameters, on_ranks([](dist::Communicator& world, int64_t parameters) {
         const auto model = layers_of(parameters);
         const dist::DDP ddp(*model, world);
         steps_of(*model, ddp.parameters(), 2);
       })},
      {"sharding/zero2", 1, kParameters,
       on_ranks([](dist::Communicator& world, int64_t parameters) {
         const auto model = layers_of(parameters);
         const dist::ZeRO zero(*model, world, {.stage = 2});
         steps_of(*model, zero.parameters(), 2);
       })},
      {"sharding/fsdp", 1, kParameters, on_ranks([](dist::Communicator& world, int64_t parameters) {
         const auto model = layers_of(parameters);
         const dist::DataParallel fsdp = dist::fully_shard(*model, world, kEachLayer);
         steps_of(*model, fsdp.parameters(), 2);
       })},
      {"sharding/full_state_dict", 1, kParameters,
       on_ranks([](dist::Communicator& world, int64_t parameters) {
         const auto model = layers_of(parameters);
         dist::fully_shard(*model, world, kEachLayer).full_state_dict();
       })},
      {"sharding/checkpoint", 1, kParameters,
       on_ranks([](dist::Communicator& world, int64_t parameters) {
         const auto model = layers_of(parameters);
         const dist::DataParallel fsdp = dist::fully_shard(*model, world);
         optim::AdamW adamw(fsdp.parameters(), {.lr = 1e-4});
         sum((*model)(ones({1, 2}))).backward();
         adamw.step();
         static Folder folder;
         dist::Checkpointer checkpoint(folder / std::to_string(parameters), world);
         checkpoint.track("model", *model);
         checkpoint.track("adamw", adamw);
         checkpoint.resume();
         checkpoint.save(1);
         checkpoint.resume();
       })},
      {"sharding/save_full", 1, kParameters,
       on_ranks([](dist::Communicator& world, int64_t parameters) {
         const auto model = layers_of(parameters);
         dist::fully_shard(*model, world);
         static Folder folder;
         const std::string path = folder / (std::to_string(parameters) + ".safetensors");
         dist::save_full(path, world, *model);
         dist::load_full(path, world, *model);
       })},
  };
}

std::vector<Case> rank_cases() {
  return {
      {"ranks/begin", 1, kRanks, over_ranks([](dist::Communicator&) {})},
      {"ranks/barrier", 1, kRanks, over_ranks([](dist::Communicator& world) {
         for (int i = 0; i < 200; ++i) world.barrier();
       })},
      {"ranks/all_reduce", 1, kRanks, over_ranks([](dist::Communicator& world) {
         const Array x = Array::ones({1024});
         for (int i = 0; i < 100; ++i) world.all_reduce(x, {.op = dist::ReduceOp::mean});
       })},
      {"ranks/all_reduce_large", 1, kRanks, over_ranks([](dist::Communicator& world) {
         const Array x = Array::ones({1 << 20});
         for (int i = 0; i < 5; ++i) world.all_reduce(x, {.op = dist::ReduceOp::mean});
       })},
      // every rank gets as many elements from each of the others
      {"ranks/all_gather", 2, kRanks, over_ranks([](dist::Communicator& world) {
         const Array mine = Array::ones({1024}), all = Array::zeros({1024 * world.size()});
         for (int i = 0; i < 100; ++i) world.all_gather(all, mine);
       })},
      {"ranks/pairs", 1, {2, 4, 8, 16, 32, 64}, over_ranks([](dist::Communicator& world) {
         const dist::Mesh mesh(world, {{"outer", world.size() / 2}, {"inner", 2}});
         const Array x = Array::ones({1024});
         for (int i = 0; i < 100; ++i) mesh["inner"].all_reduce(x);
       })},
      {"ranks/ddp", 1, kRanks, over_ranks([](dist::Communicator& world) {
         nn::Sequential model{nn::Linear(64, 256), nn::Linear(256, 256), nn::Linear(256, 2)};
         const dist::DDP ddp(model, world);
         optim::AdamW adamw(ddp.parameters(), {.lr = 1e-4});
         for (int i = 0; i < 10; ++i) {
           adamw.zero_grad();
           sum(model(ones({4, 64}))).backward();
           adamw.step();
         }
       })},
      {"ranks/fsdp", 1, kRanks, over_ranks([](dist::Communicator& world) {
         nn::Sequential model{nn::Linear(64, 256), nn::Linear(256, 256), nn::Linear(256, 2)};
         const auto fsdp = dist::fully_shard(model, world, kEachLayer);
         optim::AdamW adamw(fsdp.parameters(), {.lr = 1e-4});
         for (int i = 0; i < 10; ++i) {
           adamw.zero_grad();
           sum(model(ones({4, 64}))).backward();
           optim::clip_grad_norm(fsdp.parameters(), 1.0);
           adamw.step();
         }
       })},
      // the others wait for rank 0, which computes nothing meanwhile
      {"ranks/wait", 1, kRanks, over_ranks([](dist::Communicator& world) {
         if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
         world.barrier();
       })},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* cases : {training_cases, module_cases, optimizer_cases, sharding_cases, rank_cases}) {
    for (Case& each : cases()) all.push_back(std::move(each));
  }
  return all;
}

void list(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    std::printf("%s %g", each.name, each.order);
    for (const int64_t size : each.sizes) std::printf(" %lld", static_cast<long long>(size));
    std::printf("\n");
  }
}

void measure(const Case& what, int64_t size, int rounds) {
  const int64_t before = resident_bytes();
  const Round round = what.prepare(size);
  double least = 0.0, total = 0.0;
  // one round alone is counted, several are timed, the shortest ones many times
  for (int i = 0; i < rounds || (rounds > 1 && total < 0.1); ++i) {
    const double start = processor_seconds();
    round();
    const double taken = processor_seconds() - start;
    least = i == 0 ? taken : std::min(least, taken);
    total += taken;
  }
  std::printf("%.6f %lld %lld\n", least, static_cast<long long>(current_ledger().peak()),
              static_cast<long long>(resident_bytes() - before));
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(1);
  const std::vector<Case> cases = all_cases();
  if (argc < 3) {
    list(cases);
    return argc == 1 ? 0 : 2;
  }
  const auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& each) {
    return std::string(argv[1]) == each.name;
  });
  if (found == cases.end()) {
    std::fprintf(stderr, "bench_growth: there is no case %s\n", argv[1]);
    return 2;
  }
  if (argc > 4) sharding_ranks = std::atoi(argv[4]);
  measure(*found, std::atoll(argv[2]), argc > 3 ? std::atoi(argv[3]) : 3);
}
