// Agreement over a transport of threads, and over a list of messages in any order.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"

#include <hero/dist/backends/agreement.h>
#include <hero/dist/backends/call.h>

namespace {

using namespace hero;
using namespace hero::dist;

struct Letter {
  uint64_t number;  // of the agreement
  int stage;
  StatementSummary summary;
};

// One letter box a rank.
class LetterBoxes {
 public:
  explicit LetterBoxes(int ranks) : boxes_(static_cast<size_t>(ranks)) {}
  void send(int to, Letter letter) {
    Box& box = boxes_[static_cast<size_t>(to)];
    const std::lock_guard<std::mutex> lock(box.mutex);
    box.letters.push_back(std::move(letter));
    box.come.notify_one();
  }
  Letter receive(int me) {
    Box& box = boxes_[static_cast<size_t>(me)];
    std::unique_lock<std::mutex> lock(box.mutex);
    box.come.wait(lock, [&] { return !box.letters.empty(); });
    Letter letter = std::move(box.letters.front());
    box.letters.pop_front();
    return letter;
  }

 private:
  struct Box {
    std::mutex mutex;
    std::condition_variable come;
    std::deque<Letter> letters;
  };
  std::vector<Box> boxes_;
};

int ceil_log2(int n) {
  int bits = 0;
  while (1 << bits < n) ++bits;
  return bits;
}

std::string text_of(int rank) {
  return {static_cast<char>('a' + rank % 26), static_cast<char>(rank)};
}

struct Outcome {
  bool agree = true;
  bool carried = true;  // what all gave came, in order
  int sent = 0;
};

// One rank's way through agreements 0, 1, .. whose letters mix: it begins the next before it has
// the result of the one before. odd(number, rank): states something else.
template <class Odd>
std::vector<Outcome> agreements_of(LetterBoxes& boxes, int me, int ranks, int count,
                                   const Odd& odd) {
  std::vector<Agreement> agreements(static_cast<size_t>(count));
  std::vector<Outcome> outcomes(static_cast<size_t>(count));
  const auto advance = [&](size_t number) {
    agreements[number].advance([&](int party, int stage, const StatementSummary& summary) {
      ++outcomes[number].sent;
      boxes.send(party, {number, stage, summary});
    });
  };
  for (size_t i = 0; i < agreements.size(); ++i) {
    const uint64_t word = odd(i, me) ? 1 + static_cast<uint64_t>(me) : 0;
    agreements[i].state(me, ranks, Digest().put(word), {}, text_of(me));
    advance(i);
  }
  const auto all_done = [&] {
    return std::all_of(agreements.begin(), agreements.end(), [](auto& a) { return a.done(); });
  };
  while (!all_done()) {
    Letter letter = boxes.receive(me);
    agreements[letter.number].hear(letter.stage, std::move(letter.summary));
    advance(letter.number);
  }
  for (size_t i = 0; i < agreements.size(); ++i) {
    outcomes[i].agree = agreements[i].agree();
    for (int party = 0; party < ranks; ++party) {
      outcomes[i].carried = outcomes[i].carried && agreements[i].carried(party) == text_of(party);
    }
  }
  return outcomes;
}

template <class Odd>
std::vector<std::vector<Outcome>> on_threads(int ranks, int count, const Odd& odd) {
  LetterBoxes boxes(ranks);
  std::vector<std::vector<Outcome>> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[static_cast<size_t>(rank)] = agreements_of(boxes, rank, ranks, count, odd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST_CASE("ranks agree in two messages a doubling", "[dist][threads][agreement]") {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    INFO(ranks << " ranks");
    const auto outcomes = on_threads(ranks, 3, [](uint64_t, int) { return false; });
    for (const auto& of_rank : outcomes) {
      for (const Outcome& outcome : of_rank) {
        REQUIRE(outcome.agree);
        REQUIRE(outcome.carried);
        REQUIRE(outcome.sent >= 1);
        REQUIRE(outcome.sent <= 2 * ceil_log2(ranks));
      }
    }
  }
}

TEST_CASE("every rank sees that one deviates or several do", "[dist][threads][agreement]") {
  for (const int ranks : {2, 3, 4, 5, 7, 8, 13, 16, 33, 64}) {
    // in agreement number i rank i is the odd one, and in those behind them i and others
    const auto odd = [ranks](uint64_t number, int rank) {
      const auto at = static_cast<uint64_t>(rank), all = static_cast<uint64_t>(ranks);
      return number < all ? at == number : at % 3 == 0 || at == number - all;
    };
    const auto outcomes = on_threads(ranks, 2 * ranks, odd);
    for (const auto& of_rank : outcomes) {
      for (const Outcome& outcome : of_rank) {
        REQUIRE(!outcome.agree);
        REQUIRE(outcome.sent <= 2 * ceil_log2(ranks));
      }
    }
  }
}

TEST_CASE("summaries may come in any order and before the own statement", "[dist][agreement]") {
  std::mt19937 random(1);
  for (int ranks = 1; ranks <= 20; ++ranks) {
    std::vector<Agreement> agreements(static_cast<size_t>(ranks));
    std::vector<int> late(static_cast<size_t>(ranks));
    for (int i = 0; i < ranks; ++i) late[static_cast<size_t>(i)] = i;
    std::shuffle(late.begin(), late.end(), random);
    std::vector<std::pair<size_t, Letter>> post;
    const auto advance = [&](size_t at) {
      agreements[at].advance([&](int party, int stage, const StatementSummary& summary) {
        post.push_back({static_cast<size_t>(party), {0, stage, summary}});
      });
    };
    while (!late.empty() || !post.empty()) {
      if (post.empty() || (!late.empty() && random() % 4 == 0)) {
        const auto at = static_cast<size_t>(late.back());
        late.pop_back();
        agreements[at].state(static_cast<int>(at), ranks, Digest().put(7), {}, "x");
        advance(at);
        continue;
      }
      std::swap(post[random() % post.size()], post.back());
      auto [to, letter] = std::move(post.back());
      post.pop_back();
      agreements[to].hear(letter.stage, std::move(letter.summary));
      advance(to);
    }
    for (Agreement& agreement : agreements) {
      REQUIRE(agreement.done());
      REQUIRE(agreement.agree());
      REQUIRE(agreement.waits_for() == -1);
    }
  }
}

TEST_CASE("a rank that is missing is the one that others wait for", "[dist][agreement]") {
  Agreement first, third;
  const auto drop = [](int, int, const StatementSummary&) {};
  first.state(0, 3, Digest(), {}, {});
  first.advance(drop);
  REQUIRE(first.waits_for() == 2);  // folded into rank 0
  third.state(2, 3, Digest(), {}, {});
  third.advance(
      [&](int, int stage, const StatementSummary& summary) { first.hear(stage, summary); });
  first.advance(drop);
  REQUIRE(first.waits_for() == 1);
  REQUIRE(!first.done());
}

Call stated() {
  Call call;
  call.op = Collective::all_gather;
  call.size = 12;
  call.counts = ChunkCounts{3, 4, 5};
  call.unit = "fc1";
  return call;
}

TEST_CASE("whatever ranks must state alike changes the digest", "[dist][agreement]") {
  using Change = void (*)(Call&);
  const Change changes[] = {
      [](Call& c) { c.op = Collective::reduce_scatter; },
      [](Call& c) { c.dtype = kInt32; },
      [](Call& c) { c.result = kFloat64; },
      [](Call& c) { c.reduce = ReduceOp::max; },
      [](Call& c) { c.order = Order::ranks; },
      [](Call& c) { c.divide_by = 3; },
      [](Call& c) { c.root = 0; },
      [](Call& c) { c.size = 13; },
      [](Call& c) {
        c.counts = ChunkCounts{4, 3, 5};
      },
      [](Call& c) { c.counts = ChunkCounts::balanced(12, 3); },
      [](Call& c) {
        c.counts = ChunkCounts{4, 4, 4};
      },
      [](Call& c) { c.counts = {}; },
      [](Call& c) { c.unit = "fc2"; },
      [](Call& c) { c.declared = "fc1"; },
      [](Call& c) { c.unit = "fc1 of the second block"; },
      [](Call& c) {
        c.device = {DeviceType::cuda, 0};
      },
  };
  std::vector<Digest> digests = {digest_of(stated())};
  const std::vector<int> ranks = {0, 1};
  for (const Change change : changes) {
    Call call = stated();
    change(call);
    const std::vector<Call> calls = {stated(), call};
    REQUIRE(!disagreement(calls, ranks).empty());
    digests.push_back(digest_of(call));
  }
  for (size_t i = 0; i < digests.size(); ++i) {
    for (size_t j = 0; j < i; ++j) REQUIRE(!(digests[i] == digests[j]));
  }
  REQUIRE(digest_of(stated()) == digests.front());
}

TEST_CASE("the two ends of a message have one digest", "[dist][agreement]") {
  Call send, recv;
  send.op = Collective::send;
  send.root = 1;
  recv.op = Collective::recv;
  recv.root = 0;
  REQUIRE(digest_of(send) == digest_of(recv));
  recv.size = 5;
  REQUIRE(!(digest_of(send) == digest_of(recv)));
}

TEST_CASE("counts of an exchange balance when every rank expects what it is sent",
          "[dist][agreement]") {
  std::mt19937 random(5);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::vector<std::vector<int64_t>> sends, receives;
    for (int i = 0; i < ranks; ++i) {
      sends.emplace_back();
      for (int j = 0; j < ranks; ++j) sends.back().push_back(random() % 5);
    }
    for (int i = 0; i < ranks; ++i) {
      receives.emplace_back();
      for (const auto& send : sends) receives.back().push_back(send[static_cast<size_t>(i)]);
    }
    const auto sum = [&] {
      Digest balance;
      for (int i = 0; i < ranks; ++i) {
        Call call;
        call.op = Collective::all_to_all;
        call.send_counts = sends[static_cast<size_t>(i)];
        call.recv_counts = receives[static_cast<size_t>(i)];
        balance += balance_of(call, i);
      }
      return balance;
    };
    REQUIRE(sum() == Digest());
    const auto some = [&] { return random() % static_cast<size_t>(ranks); };
    ++receives[some()][some()];
    REQUIRE(!(sum() == Digest()));
  }
}

}  // namespace
