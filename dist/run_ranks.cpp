#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <streambuf>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/dist/local_engine.h>
#include <hero/dist/local_world.h>
#include <hero/dist/rank_state.h>
#include <hero/dist/run_ranks.h>
#include <hero/dist/simulated_engine.h>

namespace hero::dist {
namespace {

constexpr int kMaxRanks = 1024;
constexpr double kDefaultTimeout = 600;  // seconds

double timeout_of(const RunOptions& options) {
  check(options.timeout >= 0, "run_ranks: a negative time-out: ", options.timeout);
  if (options.timeout > 0) return options.timeout;
  const char* text = std::getenv("HERO_TIMEOUT");
  if (text == nullptr || *text == '\0') return kDefaultTimeout;
  double seconds = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, seconds);
  check(parsed.ec == std::errc{} && parsed.ptr == end && seconds > 0,
        "run_ranks: HERO_TIMEOUT is not a positive number of seconds: '", text, "'");
  return seconds;
}

// [note: ledgers outlive ranks]
// A storage is charged to the ledger of the rank that made it, and a program may keep it after the
// rank has ended. So ledgers are never freed; one whose bytes are all gone serves again.
class LedgerLoan {
 public:
  LedgerLoan() {
    const std::lock_guard<std::mutex> lock(mutex());
    const auto usable = [](const auto& entry) { return !entry->lent && empty(entry->ledger); };
    auto& all = entries();
    const auto found = std::find_if(all.begin(), all.end(), usable);
    entry_ = found != all.end() ? found->get() : all.emplace_back(new Entry).get();
    entry_->lent = true;
    entry_->ledger.reset_peak();
  }
  ~LedgerLoan() {
    const std::lock_guard<std::mutex> lock(mutex());
    entry_->lent = false;
  }
  LedgerLoan(const LedgerLoan&) = delete;
  LedgerLoan& operator=(const LedgerLoan&) = delete;
  Ledger& ledger() { return entry_->ledger; }

 private:
  struct Entry {
    Ledger ledger;
    bool lent = false;
  };
  static bool empty(const Ledger& ledger) {
    return ledger.live(DeviceType::cpu) == 0 && ledger.live(DeviceType::meta) == 0;
  }
  static std::mutex& mutex() {
    static auto* const instance = new std::mutex;
    return *instance;
  }
  static std::vector<std::unique_ptr<Entry>>& entries() {
    static auto* const instance = new std::vector<std::unique_ptr<Entry>>;
    return *instance;
  }
  Entry* entry_ = nullptr;
};

// Writes whole lines, each with the rank in front, to a buffer that all ranks share.
class PrefixBuffer : public std::streambuf {
 public:
  PrefixBuffer(std::streambuf* target, std::mutex& mutex, int rank)
      : target_(target),
        mutex_(mutex),
        line_("[" + std::to_string(rank) + "] "),
        prefix_(line_.size()) {}
  ~PrefixBuffer() override {
    if (line_.size() > prefix_) overflow('\n');
  }
  PrefixBuffer(const PrefixBuffer&) = delete;
  PrefixBuffer& operator=(const PrefixBuffer&) = delete;

 protected:
  int overflow(int c) override {
    if (c == traits_type::eof()) return 0;
    line_ += static_cast<char>(c);
    if (c == '\n') {
      const std::lock_guard<std::mutex> lock(mutex_);
      target_->sputn(line_.data(), static_cast<std::streamsize>(line_.size()));
      line_.resize(prefix_);
    }
    return c;
  }

 private:
  std::streambuf* target_;
  std::mutex& mutex_;
  std::string line_;
  size_t prefix_;
};

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

// What all rank threads of a run share.
struct Run {
  std::shared_ptr<LocalWorld> world;
  const RankProgram& program;
  RunOptions options;
  Generator::State generator;
  std::mutex output;
  std::vector<std::exception_ptr> errors;
};

void run_one(Run& run, int rank) {
  LedgerLoan loan;
  const LedgerScope scope(loan.ledger());
  default_generator().set_state(run.generator);
  const auto state = std::make_shared<RankState>();
  std::unique_ptr<PrefixBuffer> lines;
  if (run.options.prefix) {
    lines = std::make_unique<PrefixBuffer>(std::cout.rdbuf(), run.output, rank);
    state->out.rdbuf(lines.get());
  } else if (rank == 0) {
    state->out.rdbuf(std::cout.rdbuf());
  }
  const std::shared_ptr<Engine> engine = make_local_engine(run.world, rank);
  try {
    Communicator world(engine, state, "world");
    run.program(world);
    engine->drain();
    run.world->finish(rank);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    run.errors[static_cast<size_t>(rank)] = error;
    run.world->fail_rank(rank, message_of(error));
    engine->abandon();
  }
  state->out.flush();
  state->out.rdbuf(nullptr);  // a communicator that a program kept must not write to what is gone
}

}  // namespace

Outcome run_outcome(int ranks, const RankProgram& program, const RunOptions& options) {
  check(ranks >= 1 && ranks <= kMaxRanks, "run_ranks: not from 1 to ", kMaxRanks,
        " ranks: ", ranks);
  Run run{std::make_shared<LocalWorld>(ranks, timeout_of(options)),
          program,
          options,
          default_generator().state(),
          {},
          std::vector<std::exception_ptr>(static_cast<size_t>(ranks))};
  if (ranks == 1) {
    run_one(run, 0);
  } else {
    // One rank at a time has the pool, the others compute on their own thread alone.
    const ThreadLimit share(std::max(1, num_threads() - ranks + 1));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      try {
        threads.emplace_back([&run, rank] { run_one(run, rank); });
      } catch (const std::system_error&) {
        const auto error = std::make_exception_ptr(
            Error("run_ranks: the system has no thread for rank " + std::to_string(rank)));
        run.errors[static_cast<size_t>(rank)] = error;
        run.world->fail_rank(rank, message_of(error));
        break;
      }
    }
    for (std::thread& thread : threads) thread.join();
  }
  const int first = run.world->first_failed();
  if (first >= 0) return {run.errors[static_cast<size_t>(first)], first};
  for (const std::exception_ptr& error : run.errors) {
    if (error) return {error, -1};
  }
  return {};
}

void run_ranks(int ranks, const RankProgram& program, const RunOptions& options) {
  const Outcome outcome = run_outcome(ranks, program, options);
  if (outcome.error) std::rethrow_exception(outcome.error);
}

void simulate_ranks(int size, const RankProgram& program, const std::vector<int>& ranks) {
  check(size >= 1, "simulate_ranks: not a positive number of ranks: ", size);
  std::vector<int> chosen = ranks;
  for (int rank = 0; rank < size && ranks.empty(); ++rank) chosen.push_back(rank);
  const auto world = make_simulated_world(size);
  const Generator::State generator = default_generator().state();
  for (const int rank : chosen) {
    check(rank >= 0 && rank < size, "simulate_ranks: not a rank: ", rank, " of ", size);
    LedgerLoan loan;
    const LedgerScope scope(loan.ledger());
    default_generator().set_state(generator);
    const auto state = std::make_shared<RankState>();
    if (rank == chosen.front()) state->out.rdbuf(std::cout.rdbuf());
    const std::shared_ptr<Engine> engine = make_simulated_engine(world, rank);
    Communicator communicator(engine, state, "world");
    program(communicator);
    engine->drain();
  }
}

}  // namespace hero::dist
