#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "dist/ranks.h"
#include "support/catch.h"
#include <unistd.h>

#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/core/threads/cores.h>
#include <hero/dist/backends/mpi/transport.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

struct Launched {
  int code = 0;
  std::string out, error;
  std::vector<std::string> arguments;  // what launch() left
};

// Calls launch() as main() does, and keeps what it prints.
Launched launched(std::vector<std::string> words, const RankProgram& program,
                  const LaunchOptions& options = {}) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);

  std::ostringstream out;
  std::streambuf* const former_out = std::cout.rdbuf(out.rdbuf());
  std::FILE* const errors = std::tmpfile();
  std::fflush(stderr);
  const int former_error = ::dup(2);
  ::dup2(::fileno(errors), 2);
  Launched result;
  result.code = launch(argc, argv.data(), program, options);
  std::fflush(stderr);
  ::dup2(former_error, 2);
  ::close(former_error);
  std::cout.rdbuf(former_out);
  std::rewind(errors);
  for (int c = std::fgetc(errors); c != EOF; c = std::fgetc(errors)) {
    result.error += static_cast<char>(c);
  }
  std::fclose(errors);
  result.out = out.str();
  for (int i = 0; i < argc; ++i) result.arguments.emplace_back(argv[static_cast<size_t>(i)]);
  REQUIRE(argv[static_cast<size_t>(argc)] == nullptr);
  return result;
}

void print_rank(Communicator& world) {
  world.out() << "rank " << world.rank() << " of " << world.size() << "\nbye\n";
}

TEST_CASE("launch runs one rank, or as many as it is told", "[dist]") {
  const Launched one = launched({}, print_rank);
  REQUIRE((one.code == 0 && one.out == "rank 0 of 1\nbye\n" && one.error.empty()));
  REQUIRE(launched({"--ranks", "3"}, print_rank).out == "rank 0 of 3\nbye\n");
  REQUIRE(launched({"--ranks=2"}, print_rank).out == "rank 0 of 2\nbye\n");
  REQUIRE(launched({}, print_rank, {.default_ranks = 4}).out == "rank 0 of 4\nbye\n");
  REQUIRE(launched({"--ranks=2"}, print_rank, {.default_ranks = 4}).out == "rank 0 of 2\nbye\n");
}

TEST_CASE("launch takes out its own options and leaves the rest", "[dist]") {
  const Launched run =
      launched({"--lr", "0.1", "--ranks", "2", "--prefix", "--timeout=60", "--timeout-join=90",
                "--timeout-checkpoint", "120", "--link=1e9", "--", "--ranks", "x", "--ranksome"},
               [](Communicator&) {});
  REQUIRE(run.code == 0);
  REQUIRE(run.arguments ==
          std::vector<std::string>{"train", "--lr", "0.1", "--", "--ranks", "x", "--ranksome"});
  const Launched bound = launched({"--bind-to-cores", "data"}, [](Communicator& world) {
    world.out() << core::cores_for_started().size();
  });
  REQUIRE(bound.out == std::to_string(core::usable_cores().size()));
  REQUIRE(bound.arguments == std::vector<std::string>{"train", "data"});
}

TEST_CASE("with prefixes every rank's lines are whole and numbered", "[dist][threads]") {
  const Launched run = launched({"--ranks", "4", "--prefix"}, [](Communicator& world) {
    for (int i = 0; i < 50; ++i) world.out() << "line " << i << " of many\n";
    world.out() << "no end of line";
  });
  std::vector<int> next(4, 0);
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    const auto rank = static_cast<size_t>(line[1] - '0');
    REQUIRE(rank < 4);
    const int i = next[rank]++;
    REQUIRE(line == "[" + std::to_string(rank) + "] " +
                        (i < 50 ? "line " + std::to_string(i) + " of many" : "no end of line"));
  }
  REQUIRE(next == std::vector<int>{51, 51, 51, 51});
}

TEST_CASE("the first rank that throws is what the user sees", "[dist][threads]") {
  const Launched run = launched({"--ranks", "3"}, [](Communicator& world) {
    if (world.rank() == 2) fail("loader: no such file: 'train.bin'");
    world.barrier();
  });
  REQUIRE(run.code == 1);
  REQUIRE(run.error == "train: rank 2: loader: no such file: 'train.bin'\n");
  const Launched shared = launched({"--ranks", "2"}, [](Communicator& world) {
    world.all_reduce(Array::zeros({1 + world.rank()}));
  });
  REQUIRE(shared.code == 1);
  REQUIRE_THAT(shared.error, ContainsSubstring("train: all_reduce (call 0 of 'world')"));
}

TEST_CASE("launch refuses what it cannot do, and says what to do", "[dist]") {
  bool ran = false;
  const auto refused = [&](const std::vector<std::string>& words) {
    const Launched run = launched(words, [&](Communicator&) { ran = true; });
    REQUIRE(run.code == 1);
    return run.error;
  };
  REQUIRE_THAT(refused({"--ranks", "0"}),
               ContainsSubstring("--ranks needs a number of at least 1"));
  REQUIRE_THAT(refused({"--ranks", "two"}), ContainsSubstring("'two'"));
  REQUIRE_THAT(refused({"--ranks"}), ContainsSubstring("--ranks needs a value"));
  REQUIRE_THAT(refused({"--ranks", "5000"}), ContainsSubstring("not from 1 to 1024"));
  REQUIRE_THAT(refused({"--timeout", "0"}), ContainsSubstring("--timeout needs a number"));
  REQUIRE_THAT(refused({"--timeout-join", "0"}),
               ContainsSubstring("--timeout-join needs a number"));
  REQUIRE_THAT(refused({"--timeout-checkpoint", "-3"}),
               ContainsSubstring("--timeout-checkpoint needs a number"));
  if (!has_mpi()) REQUIRE_THAT(refused({"--backend", "mpi"}), ContainsSubstring("no mpi backend"));
  REQUIRE_THAT(refused({"--backend", "nccl"}), ContainsSubstring("no nccl backend"));
  REQUIRE_THAT(refused({"--restarts", "-1"}), ContainsSubstring("--restarts needs a number"));
  REQUIRE_THAT(refused({"--elastic"}), ContainsSubstring("add --restarts N"));
  REQUIRE_THAT(refused({"--hosts", "cat hosts"}), ContainsSubstring("add --restarts N"));
  REQUIRE_THAT(refused({"--restarts=0", "--mpirun=mpirun"}), ContainsSubstring("add --restarts N"));
  REQUIRE_THAT(refused({"--restarts=1", "--ranks=2", "--elastic=8,4"}),
               ContainsSubstring("none is at most 2"));
  REQUIRE_THAT(refused({"--backend", "simulated"}), ContainsSubstring("simulate_ranks()"));
  REQUIRE_THAT(refused({"--backend", "gloo"}), ContainsSubstring("unknown name 'gloo'"));
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  REQUIRE_THAT(refused({}), ContainsSubstring("started as 4 processes"));
  REQUIRE_THAT(refused({"--restarts=2"}),
               ContainsSubstring(has_mpi() ? "start the program by itself" : "started as 4"));
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  REQUIRE_FALSE(ran);
}

TEST_CASE("each rank has its own ledger and the caller's random numbers", "[dist]") {
  manual_seed(42);
  const Generator::State seeded = default_generator().state();
  std::vector<Array> kept(3);
  for (int round = 0; round < 3; ++round) {
    run_ranks(3, [&](Communicator& world) {
      expect(default_generator().state() == seeded, "the caller's state");
      default_generator().next();
      const int64_t before = current_ledger().live();
      expect(before == 0 && current_ledger().peak() == 0, "an empty ledger");
      const Array x = Array::zeros({100 * (world.rank() + 1)});
      world.barrier();
      expect(current_ledger().live() == x.nbytes(), "its own bytes only");
      kept[static_cast<size_t>(world.rank())] = x;  // outlives the rank
    });
    REQUIRE(default_generator().state() == seeded);
  }
}

TEST_CASE("ranks may use the thread pool", "[dist][threads]") {
  for (const int threads : {1, 4}) {
    const ThreadLimit limit(threads);
    run_ranks(3, [&](Communicator& world) {
      expect(num_threads() == (threads == 1 ? 1 : 2), "the ranks' share");
      for (int round = 0; round < 10; ++round) {
        const Array x = Array::zeros({1000});
        auto* const data = x.data<float>();
        parallel_for(1000, 100, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) data[i] = static_cast<float>(i);
        });
        world.all_reduce(x);
        expect(x.data<float>()[999] == 2997.0F, "the sum of three");
      }
    });
    REQUIRE(num_threads() == threads);
  }
}

TEST_CASE("run_ranks refuses what cannot run", "[dist]") {
  REQUIRE_THROWS_WITH(run_ranks(0, [](Communicator&) {}), ContainsSubstring("not from 1 to 1024"));
  REQUIRE_THROWS_WITH(run_ranks(2, [](Communicator&) {}, {.timeout = -1.0}),
                      ContainsSubstring("negative time-out"));
}

}  // namespace
