// A program for the tests of the mpi backend, run as threads and as processes:
//   hero_mpi_ranks WHAT [launch's options]
// Its ranks check themselves; what all backends must agree on is printed.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "dist/backends/collective_checks.h"
#include "dist/checkpoints.h"
#include "dist/data_parallel/seeded_bugs.h"
#include "dist/mpi/compressed.h"
#include "dist/mpi/deaths.h"
#include "dist/mpi/eight_slices.h"
#include "dist/mpi/go_wrong.h"
#include "dist/mpi/hosts.h"
#include "dist/mpi/library_groups.h"
#include "dist/mpi/messages.h"
#include "dist/mpi/texts.h"
#include "dist/parallel/pipelines.h"
#include "support/clocklock.h"
#include <unistd.h>

#include <hero/core/ledger.h>
#include <hero/core/random.h>
#include <hero/dist/backends/mpi/all_reduce.h>
#include <hero/dist/backends/mpi/run.h>
#include <hero/dist/backends/mpi/transfer.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;

const std::vector<Subject> kSubjects = {Subject::mlp, Subject::odd, Subject::gpt};
const std::vector<Method> kMethods = {Method::sgd, Method::adamw, Method::lamb};

// Every operation's result, and at the end what was sent.
void print_hashes(Communicator& world) {
  const int64_t n = world.size();
  for (const DType dtype : kDTypes) {
    for (const int64_t share : {int64_t{1}, int64_t{1000}, int64_t{150000}}) {
      const std::string what = to_string(dtype) + " " + std::to_string(share);
      const Array mine = contribution(world.rank(), share, dtype);
      const Array whole = contribution(world.rank(), share * n, dtype);
      const Array all = Array::zeros({share * n}, dtype), part = Array::zeros({share}, dtype);
      for (const ReduceOp op : kOps) {
        if (op == ReduceOp::mean && !is_floating(dtype)) continue;
        const Array sum = whole.clone();
        world.all_reduce(sum, {.op = op, .unit = "sum"});
        print_hash(world, std::string("all_reduce ") + name(op) + " " + what, sum);
        world.reduce_scatter(part, whole, {.op = op});
        print_hash(world, std::string("reduce_scatter ") + name(op) + " " + what, part);
      }
      world.all_gather(all, mine);
      print_hash(world, "all_gather " + what, all);
      world.all_to_all(all, whole);
      print_hash(world, "all_to_all " + what, all);
      world.reduce(whole, world.size() - 1);
      print_hash(world, "reduce " + what, whole);
    }
  }
  const Array odd = contribution(world.rank(), 2345677, kFloat32);
  world.all_reduce(odd, {.op = ReduceOp::mean});
  print_hash(world, "all_reduce of 2345677", odd);
  world.out() << world.traffic().table();
}

// Three steps of ranks that share each sequence.
void print_context(Communicator& world) {
  manual_seed(5);
  const int64_t length = 4 * world.size();
  nn::GPT model({.vocab_size = 19, .block_size = length, .n_layer = 2, .n_head = 2, .n_embd = 8});
  context_parallel(model, world);
  fully_shard(model, world, {.unit = each<nn::Block>()});
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 2 * length; ++i) ids.push_back(i * i % 19);
  const Tensor tokens(Array::from(ids, {2, length}));
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = model.loss(tokens, tokens);
    loss.backward();
    print_hash(world, "context loss", loss.detach().array());
    adamw.step();
    adamw.zero_grad();
  }
  for (const Tensor& p : model.parameters()) print_hash(world, "context part", p.array());
}

// What pipelines over all ranks leave on this rank, and what it sent.
void print_pipelines(Communicator& world) {
  for (const PipeSubject subject : {PipeSubject::layers, PipeSubject::gpt_tied}) {
    const size_t layers = make_pipe_model(subject).pipeline_model().layers();
    for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_f_one_b(),
                                     Schedule::interleaved(2), Schedule::zero_bubble()}) {
      if (static_cast<size_t>(schedule.chunks() * world.size()) > layers) continue;
      Whole whole;
      std::vector<double> numbers;
      world.traffic().reset();
      train_pipe({.subject = subject, .schedule = schedule}, world, whole, numbers);
      world.out() << schedule.name() << " subject " << static_cast<int>(subject) << " "
                  << whole.sha256() << "\n";
      for (const double number : numbers) world.out() << std::hexfloat << number << " ";
      world.out() << "\n" << world.traffic().table();
    }
  }
}

void check_collectives(Communicator& world) {
  check_all(world, kDTypes, {0, 1, 3, 67});
  check_reductions(world, ReduceOp::sum, Order::tree, kBFloat16, 300007);
  check_message_to_oneself(world);
  const Array halves = contribution(world.rank(), 10, kBFloat16);
  if (world.backend_kind() == BackendKind::mpi) {
    expect(error_of([&] {
             world.all_reduce(halves, {.order = Order::native});
           }).find("MPI has no reduction of bfloat16") != std::string::npos,
           "no native sum of halves");
  }
}

// MPI's own reductions: whole numbers, so that every order has the same bits.
void check_native(Communicator& world) {
  const Communicator half = world.split(world.rank() % 2, 0);
  const std::vector<const Communicator*> groups = {&world, &half};
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat32, kFloat64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      for (const Communicator* group : groups) {
        const int64_t share = 100, n = share * group->size();
        const Array x = make(
            {n},
            [&](int64_t i) {
              return static_cast<double>((i + world.rank()) % 2 + (dtype == kBool ? 0 : 1));
            },
            dtype);
        const Array a = x.clone(), b = x.clone(), c = x.clone(), d = x.clone();
        const Array part = Array::zeros({share}, dtype), other = Array::zeros({share}, dtype);
        group->all_reduce(a, {.op = op});
        group->all_reduce(b, {.op = op, .order = Order::native});
        expect(same(a, b), "all_reduce, ", name(op), " of ", to_string(dtype));
        group->reduce(c, 0, {.op = op});
        group->reduce(d, 0, {.op = op, .order = Order::native});
        expect(same(c, d), "reduce, ", name(op), " of ", to_string(dtype));
        group->reduce_scatter(part, x, {.op = op});
        group->reduce_scatter(other, x, {.op = op, .order = Order::native});
        expect(same(part, other), "reduce_scatter, ", name(op), " of ", to_string(dtype));
        const Array own = x.slice(0, group->rank() * share, (group->rank() + 1) * share);
        group->reduce_scatter(own, x, {.op = op, .order = Order::native});
        expect(same(own, part), "reduce_scatter in place");
      }
    }
  }
  const Array mean = Array::full({5}, world.rank());
  world.all_reduce(mean, {.op = ReduceOp::mean, .order = Order::native});
  expect(same(mean, Array::full({5}, (world.size() - 1) / 2.0)), "mean");
  // begun on two groups in an order of each rank's own
  const Communicator pair = world.split(0, -world.rank());
  const Array x = Array::ones({9}), y = Array::ones({9});
  std::vector<Work> works;
  for (int i = 0; i < 2; ++i) {
    const bool first = (i + world.rank()) % 2 == 0;
    works.push_back(
        (first ? pair : world).all_reduce(first ? x : y, {.order = Order::native, .async = true}));
  }
  for (Work& work : works) work.wait();
  expect(same(x, Array::full({9}, world.size())) && same(y, x), "two groups at once");
}

// Reductions that may stage next to nothing, and more messages than are under way at once.
void check_staging(Communicator& world) {
  for (const auto& [budget, n] : {std::pair(1, 5003), {1000, 30011}, {100000, 300007}}) {
    set_staging_budget(budget);
    std::vector<int64_t> counts(static_cast<size_t>(world.size()), n / world.size());
    counts.front() += 7;
    counts.back() = 0;
    for (const Order order : {Order::tree, Order::ranks}) {
      check_reductions(world, ReduceOp::sum, order, kBFloat16, n);
      check_reductions(world, ReduceOp::mean, order, kFloat32, n);
      check_reduce_scatter(world, ReduceOp::sum, order, kFloat64, Parts(world, 0, counts));
    }
  }
  for (const int window : {1, 2}) {
    set_move_window(window);
    check_moves(world, kFloat32, Parts(world, 40009, {}));
    std::vector<int64_t> counts(static_cast<size_t>(world.size()), 30011);
    counts.back() = 0;
    check_moves(world, kBFloat16, Parts(world, 0, counts));
    check_all_to_all(world, kFloat64);
  }
}

void check_groups(Communicator& world) {
  const int me = world.rank(), n = world.size();
  const Communicator turned = world.split(0, -me, "turned");
  expect(turned.rank() == n - 1 - me && turned.size() == n, "the reverse order");
  const Array x = Array::full({3}, me);
  turned.broadcast(x, 0);
  expect(same(x, Array::full({3}, n - 1)), "the last rank's");
  const Communicator parity = world.split(me % 2, me, "parity");
  const Array y = Array::ones({100000});
  parity.all_reduce(y);
  expect(same(y, Array::full({100000}, parity.size())), "the number of its ranks");
  const Communicator alone = parity.split(parity.rank(), 0);
  expect(alone.size() == 1 && alone.world_rank() == me, "alone");
  const Communicator none = world.split(me == 0 ? -1 : 0, 0);
  expect(none.defined() == (me != 0), "a negative color");
  if (n % 2 == 0) {
    const Mesh mesh(world, {{"replicate", 2}, {"shard", n / 2}});
    const Array z = Array::full({3}, me);
    mesh["shard"].all_reduce(z);
    mesh["replicate"].all_reduce(z);
    expect(same(z, Array::full({3}, n * (n - 1) / 2)), "along both axes");
  }
}

void check_async(Communicator& world) {
  const int n = world.size(), me = world.rank();
  const Communicator other = world.split(0, me);
  std::vector<Array> arrays;
  std::vector<Work> works;
  for (int i = 0; i < 12; ++i) {
    arrays.push_back(Array::full({i % 3 == 0 ? 400000 : 100 + i}, me + i));
    works.push_back((i % 2 == 0 ? world : other).all_reduce(arrays.back(), {.async = true}));
  }
  for (size_t i = 0; i < 12; ++i) works[(i * 5 + static_cast<size_t>(me) * 2) % 12].wait();
  for (int i = 0; i < 12; ++i) {
    const Array& x = arrays[static_cast<size_t>(i)];
    expect(same(x, Array::full(x.shape(), n * (n - 1) / 2 + n * i)), "sum ", i);
  }
  // a call goes on without its rank: nobody waits on rank 0 before the others have their result
  const Array x = Array::full({100000}, 1.0), sign = Array::zeros({1});
  Work sum = world.all_reduce(x, {.async = true});
  if (me != 0) sum.wait();
  if (me != 0) world.send(sign, 0);
  for (int i = 1; me == 0 && i < n; ++i) world.recv(sign, i);
  while (!sum.test()) std::this_thread::yield();
  expect(same(x, Array::full({100000}, n)), "the sum");
  world.all_reduce(Array::ones({1000}), {.async = true});  // nobody waits for it
  manual_seed(7);
  expect(current_ledger().live() > 0, "a ledger of its own");
}

// One world after another in the same processes; -1 in `silent`: every rank throws.
int check_bugs() {
  int failures = 0, count = 0;
  for (const auto* bugs : {&mismatches(), &absences(), &wrong_arguments()}) {
    for (const Bug& bug : *bugs) {
      std::string message;
      int me = 0;
      ++count;
      const auto failure = run_on_mpi(
          [&](Communicator& world) {
            me = world.rank();
            try {
              bug.program(world);
            } catch (const std::exception& error) {
              message = error.what();
              throw;
            }
          },
          {}, [](const Failure&) {});
      const auto lacks = [&bug](const std::string& text) {
        for (const std::string& part : bug.errors) {
          if (text.find(part) == std::string::npos) return true;
        }
        return false;
      };
      const bool quiet = bug.silent == me || (bug.silent == -2 && me != 1);
      const bool may_be_quiet = quiet || bug.silent == -3;
      const bool right =
          quiet ? message.empty() : (message.empty() ? may_be_quiet : !lacks(message));
      if (right && failure && !lacks(failure->line)) continue;
      ++failures;
      std::cerr << "rank " << me << ": " << bug.name << ": threw '" << message << "', the run '"
                << (failure ? failure->line : "") << "'\n";
    }
  }
  if (mpi_world_rank() == 0) std::cout << count << " bugs\n";
  return failures == 0 ? 0 : 1;
}

// Trains and saves in the folder HERO_RUN, and goes on from there. HERO_KILL="RANK STEP
// MICROSECONDS" says which process kills itself, and how long after it has come to that step or a
// later one, or after its begin where the step is -1; HERO_PAUSE how many milliseconds a step takes
// longer.
void train_and_resume(Communicator& world) {
  const char* const run = std::getenv("HERO_RUN");
  check(run != nullptr, "resume: HERO_RUN names the folder");
  int victim = -1, fatal = 0, microseconds = 0;
  const char* const plan = std::getenv("HERO_KILL");
  if (plan != nullptr) (void)std::sscanf(plan, "%d %d %d", &victim, &fatal, &microseconds);
  const auto come_to = [&](int step) {
    if (victim != world.rank() || step < fatal) return;
    victim = -1;
    std::thread([microseconds] {
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  };
  come_to(-1);
  Runner runner(world, {ShardingStrategy::fsdp, world.size()}, {Subject::mlp, Method::adamw});
  Checkpointer checkpoint = runner.checkpointer(run);
  auto step = static_cast<int>(checkpoint.resume().value_or(0));
  world.out() << "begins at step " << step << "\n";
  const char* const text = std::getenv("HERO_PAUSE");
  const std::chrono::milliseconds pause(text == nullptr ? 0 : std::atoi(text));
  while (step < 40) {
    come_to(step);
    std::this_thread::sleep_for(pause);
    runner.step(step++);
    if (step % 2 == 0) checkpoint.save(step);
  }
  save_full(std::string(run) + "/model.safetensors", world, *runner.model);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "bugs") return check_bugs();
  if (what == "groups") return check_library_groups();
  if (what == "messages") {
    const int code = launch(argc, argv, sum_often);
    say_messages(mpi_world_rank());
    return code;
  }
  const std::map<std::string, RankProgram> programs = {
      {"hashes", into_files([](Communicator& world) {
         print_hashes(world);
         print_strategies(world, 3, kSubjects, kMethods);
         print_pipelines(world);
         print_context(world);
         print_compressed(world);
       })},
      {"strategies20",
       into_files([](Communicator& world) { print_strategies(world, 20, kSubjects, kMethods); })},
      {"checks",
       [](Communicator& world) {
         check_collectives(world);
         check_groups(world);
         check_async(world);
         check_native(world);
       }},
      {"staging", check_staging},
      {"hosts", check_hosts},
      {"training", into_files([](Communicator& world) {
         print_strategies(world, 3, kSubjects, {Method::sgd, Method::adamw});
       })},
      {"resume", train_and_resume},
      {"slices", train_eight_slices},
      {"restarts", train_and_die},
      {"print", [](Communicator& world) {
         world.out() << "rank " << world.rank() << " of " << world.size() << " on "
                     << name(world.backend_kind()) << "\nbye\n";
       }}};
  const auto program = programs.find(what);
  if (program != programs.end()) return launch(argc, argv, program->second);
  for (const char* how : {"throw", "throw7", "exit", "leave", "kill", "hang", "endless", "stopped",
                          "die_midway", "throw_midway"}) {
    if (what == how) {
      return launch(argc, argv, [&](Communicator& world) { go_wrong(world, what); });
    }
  }
  std::cerr << "no '" << what << "'\n";
  return 2;
}
