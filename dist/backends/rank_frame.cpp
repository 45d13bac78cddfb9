#include <algorithm>
#include <iostream>
#include <memory>
#include <mutex>
#include <streambuf>
#include <string>
#include <vector>

#include <hero/core/ledger.h>
#include <hero/core/random.h>
#include <hero/core/threads/at_fork.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/rank_frame.h>

namespace hero::dist {
namespace {

// [note: ledgers outlive ranks]
// A storage is charged to the ledger of the rank that made it, and a program may keep it after the
// rank has ended. So ledgers are never freed; one whose bytes are all gone serves again.
struct KeptLedger {
  Ledger ledger;
  bool lent = false;
};
constinit std::mutex kept_ledgers_mutex;
std::vector<std::unique_ptr<KeptLedger>>& kept_ledgers() {
  static auto* const instance = new std::vector<std::unique_ptr<KeptLedger>>;
  return *instance;
}
[[maybe_unused]] const bool kKeptLedgersAtFork = core::at_fork(
    [] {
      kept_ledgers_mutex.lock();
      kept_ledgers();
    },
    [] { kept_ledgers_mutex.unlock(); }, [] { kept_ledgers_mutex.unlock(); });  // see [note: forks]

class LedgerLoan {
 public:
  LedgerLoan() {
    const std::lock_guard<std::mutex> lock(kept_ledgers_mutex);
    const auto usable = [](const auto& kept) { return !kept->lent && empty(kept->ledger); };
    auto& all = kept_ledgers();
    const auto found = std::find_if(all.begin(), all.end(), usable);
    kept_ = found != all.end() ? found->get() : all.emplace_back(new KeptLedger).get();
    kept_->lent = true;
    kept_->ledger.reset_peak();
  }
  ~LedgerLoan() {
    const std::lock_guard<std::mutex> lock(kept_ledgers_mutex);
    kept_->lent = false;
  }
  LedgerLoan(const LedgerLoan&) = delete;
  LedgerLoan& operator=(const LedgerLoan&) = delete;
  Ledger& ledger() { return kept_->ledger; }

 private:
  static bool empty(const Ledger& ledger) {
    return ledger.live(DeviceType::cpu) == 0 && ledger.live(DeviceType::meta) == 0 &&
           ledger.live(DeviceType::cuda) == 0;
  }
  KeptLedger* kept_ = nullptr;
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
      target_->pubsync();  // of several processes only whole writes stay whole
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

}  // namespace

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

std::exception_ptr first_error(Backend& backend, std::exception_ptr thrown) {
  try {
    backend.confirm();
  } catch (...) {
    return std::current_exception();
  }
  return thrown;
}

struct RankFrame::Parts {
  Parts(int rank, bool prefix, std::mutex& output)
      : scope(loan.ledger()), state(std::make_shared<RankState>(rank)), flight(state->flight) {
    if (prefix) {
      lines = std::make_unique<PrefixBuffer>(std::cout.rdbuf(), output, rank);
      state->out.rdbuf(lines.get());
    } else if (rank == 0) {
      state->out.rdbuf(std::cout.rdbuf());
    }
  }
  LedgerLoan loan;
  LedgerScope scope;
  std::unique_ptr<PrefixBuffer> lines;
  std::shared_ptr<RankState> state;
  FlightRecorderScope flight;
};

RankFrame::RankFrame(int rank, bool prefix, const Generator::State& generator, std::mutex& output)
    : parts_(std::make_unique<Parts>(rank, prefix, output)) {
  default_generator().set_state(generator);
}

RankFrame::~RankFrame() {
  parts_->state->out.flush();
  parts_->state->out.rdbuf(nullptr);  // a communicator that was kept must not write to what is gone
}

const std::shared_ptr<RankState>& RankFrame::state() const { return parts_->state; }

}  // namespace hero::dist
