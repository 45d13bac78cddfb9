// The backend of docs/extending/adding_a_communication_backend.md: ranks are threads that meet at
// every call. It is short because it never lets a call go on while its rank computes.
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "dist/backends/collective_checks.h"
#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/dist/backends/ordered_reduce.h>
#include <hero/dist/backends/rank_frame.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace pages {

/// Where the ranks of one group meet, call after call.
struct Rendezvous {
  std::vector<dist::Call> calls;  // what each rank states, in the round that is under way
  std::set<int> here;             // ranks of the world that have come and not yet left
  size_t done = 0;                // how many of them have read what they need
};

/// What all ranks share. One lock for everything: this backend is for reading.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  // why no call will be complete any more
  std::set<int> ended;  // ranks whose program has returned
  std::map<std::string, std::shared_ptr<Rendezvous>> all_rendezvous;

  /// Waits under the lock until `ready`; an Error where the world has failed.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    changed.notify_all();
    changed.wait(lock, [&] { return ready() || !failure.empty(); });
    check(failure.empty(), failure);
  }
};

/// What the call gives to rank `me`: bytes from the inputs of all.
std::vector<std::byte> bytes_for(int me, const std::vector<dist::Call>& calls) {
  const dist::Call& own = calls[static_cast<size_t>(me)];
  const int64_t item = item_size(own.dtype);
  std::vector<std::byte> result;
  const auto take = [&](const dist::Call& from, dist::Chunk part) {
    if (part.count == 0) return;
    const std::byte* const begin = from.input + part.begin * item;
    result.insert(result.end(), begin, begin + part.count * item);
  };
  const auto reduce = [&](dist::Chunk part) {
    std::vector<const std::byte*> inputs;
    for (const dist::Call& call : calls) inputs.push_back(call.input + part.begin * item);
    result.resize(static_cast<size_t>(part.count * item_size(own.result)));
    if (part.count > 0) dist::ordered_reduce(own.fold(), inputs, result.data(), part.count);
  };
  const auto root = static_cast<size_t>(std::max(own.root, 0));
  switch (own.op) {
    case dist::Collective::all_reduce:
      reduce({0, own.size});
      break;
    case dist::Collective::reduce:
      if (own.root == me) reduce({0, own.size});
      break;
    case dist::Collective::reduce_scatter:
      reduce(own.counts.chunk(me));
      break;
    case dist::Collective::gather:
    case dist::Collective::all_gather:
    case dist::Collective::split:
      if (own.op == dist::Collective::gather && own.root != me) break;
      for (size_t i = 0; i < calls.size(); ++i) {
        take(calls[i], {0, own.counts.count(static_cast<int>(i))});
      }
      break;
    case dist::Collective::broadcast:
      if (own.root != me) take(calls[root], {0, own.size});
      break;
    case dist::Collective::scatter:
      take(calls[root], own.counts.chunk(me));
      break;
    case dist::Collective::all_to_all:
      for (const dist::Call& call : calls) take(call, call.send_counts.chunk(me));
      break;
    case dist::Collective::recv:
      take(calls[0], {0, own.size});
      break;
    case dist::Collective::send:
    case dist::Collective::barrier:
      break;
  }
  return result;
}

struct Complete : dist::Pending {
  bool test() override { return true; }
  void wait() override {}
  bool complete() const override { return true; }
};

class MeetingBackend : public dist::Backend {
 public:
  MeetingBackend(std::shared_ptr<World> world, std::string name, std::vector<int> ranks, int me)
      : world_(std::move(world)), name_(std::move(name)), ranks_(std::move(ranks)), me_(me) {}

  dist::BackendKind kind() const override { return dist::BackendKind::local; }
  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::span<const int> world_ranks() const override { return ranks_; }

  std::shared_ptr<dist::Pending> post(dist::Call call, Array /*input*/, Array /*output*/) override {
    if (call.op == dist::Collective::send || call.op == dist::Collective::recv) {
      const bool sends = call.op == dist::Collective::send;
      const int from = sends ? me_ : call.root, to = sends ? call.root : me_;
      meet(name_ + " " + std::to_string(from) + ">" + std::to_string(to), sends ? 0 : 1,
           {ranks_[static_cast<size_t>(from)], ranks_[static_cast<size_t>(to)]}, call);
    } else {
      meet(name_, me_, ranks_, call);
      ++made_;
    }
    return std::make_shared<Complete>();  // input and output were needed until here only
  }

  std::shared_ptr<dist::Backend> group(std::span<const int> members,
                                       const std::string& axis) override {
    std::vector<int> ranks;
    int me = 0;
    for (const int member : members) {
      if (member == me_) me = static_cast<int>(ranks.size());
      ranks.push_back(ranks_[static_cast<size_t>(member)]);
    }
    const std::string name = name_ + "/" + axis + std::to_string(made_) + dist::rank_list(ranks);
    return std::make_shared<MeetingBackend>(world_, name, ranks, me);
  }

  void drain() override {}  // nothing goes on behind a rank's back
  void abandon() override {}

 private:
  /// One call of `ranks`, of which this one is number `me`: all come, compare, take and leave.
  void meet(const std::string& place, int me, const std::vector<int>& ranks,
            const dist::Call& call) {
    std::unique_lock lock(world_->mutex);
    std::shared_ptr<Rendezvous>& shared = world_->all_rendezvous[place];
    if (!shared) shared = std::make_shared<Rendezvous>();
    Rendezvous& rendezvous = *shared;
    world_->wait(lock, [&] { return rendezvous.done == 0; });  // the round before is over
    rendezvous.calls.resize(ranks.size());
    rendezvous.calls[static_cast<size_t>(me)] = call;
    rendezvous.here.insert(ranks[static_cast<size_t>(me)]);
    const auto ended = [&] {  // the ranks that will never come
      std::vector<int> absent;
      for (const int rank : ranks) {
        if (world_->ended.count(rank) > rendezvous.here.count(rank)) absent.push_back(rank);
      }
      return absent;
    };
    world_->wait(lock, [&] { return rendezvous.here.size() == ranks.size() || !ended().empty(); });
    std::string wrong = dist::rank_list(ended()) + " ended without this call";
    if (ended().empty()) wrong = dist::disagreement(rendezvous.calls, ranks);
    if (!wrong.empty()) {
      world_->failure = dist::describe(call, made_, name_) + ": " + wrong;
      world_->changed.notify_all();
      fail(world_->failure);
    }
    const std::vector<std::byte> result =
        call.moves ? bytes_for(me, rendezvous.calls) : std::vector<std::byte>();
    ++rendezvous.done;  // behind this point nobody reads this rank's input any more
    world_->wait(lock, [&] { return rendezvous.done == ranks.size(); });
    if (!result.empty()) std::memcpy(call.output, result.data(), result.size());
    rendezvous.here.erase(ranks[static_cast<size_t>(me)]);
    if (rendezvous.here.empty()) rendezvous.done = 0;
    world_->changed.notify_all();
  }

  std::shared_ptr<World> world_;
  std::string name_;
  std::vector<int> ranks_;  // of the world
  int me_;
  uint64_t made_ = 0;
};

/// Runs the program on ranks of this backend; throws again what the first to fail threw.
void run_ranks_of_page(int size, const dist::RankProgram& program) {
  const auto world = std::make_shared<World>();
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(rank);
  std::mutex output;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const dist::RankFrame frame(rank, false, default_generator().state(), output);
      const auto backend = std::make_shared<MeetingBackend>(world, "world", all, rank);
      try {
        dist::Communicator communicator(backend, frame.state(), "world");
        program(communicator);
        backend->drain();
        const std::lock_guard lock(world->mutex);
        world->ended.insert(rank);
        world->changed.notify_all();
      } catch (...) {
        const std::lock_guard lock(world->mutex);
        if (!error) error = std::current_exception();
        if (world->failure.empty()) world->failure = "rank " + std::to_string(rank) + " failed";
        world->changed.notify_all();
        backend->abandon();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace pages

TEST_CASE("the backend of the page has every collective, with the bits of their definitions") {
  for (const int ranks : {1, 2, 3, 5}) {
    pages::run_ranks_of_page(ranks, [](dist::Communicator& world) {
      check_all(world, {kBool, kInt64, kBFloat16, kFloat32}, {0, 1, 67});
      const Array x = Array::full({2}, 1.0F + static_cast<float>(world.rank()), kFloat32);
      if (world.rank() + 1 < world.size()) world.send(x, world.rank() + 1);
      if (world.rank() == 0) return;
      world.recv(x, world.rank() - 1);
      expect(x.to_vector<float>()[1] == static_cast<float>(world.rank()), "the message came");
    });
  }
}

TEST_CASE("the backend of the page trains FSDP and a hybrid to the bits of one process") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::fsdp, ShardingStrategy::hybrid}) {
    const Climb c{strategy, Subject::gpt, Method::adamw, 4, 3, 0.5};
    Whole expected, got;
    train(c, expected, nullptr);
    pages::run_ranks_of_page(4, [&](dist::Communicator& world) { train(c, got, &world); });
    CAPTURE(name(strategy));
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("the backend of the page ends all ranks when they differ or one of them fails") {
  const auto differ = [](dist::Communicator& world) {
    const Array x = Array::full({2}, 1.0F, kFloat32);
    world.rank() == 0 ? (void)world.all_reduce(x) : (void)world.broadcast(x, 0);
  };
  CHECK_THROWS_WITH(pages::run_ranks_of_page(3, differ),
                    ContainsSubstring("ranks disagree on the operation: rank 0 says all_reduce"));
  const auto one_ends = [](dist::Communicator& world) {
    if (world.rank() != 1) world.barrier();
  };
  CHECK_THROWS_WITH(pages::run_ranks_of_page(3, one_ends),
                    ContainsSubstring("rank 1 ended without this call"));
  const auto one_fails = [](dist::Communicator& world) {
    if (world.rank() == 1) fail("no data");
    world.barrier();
  };
  CHECK_THROWS_WITH(pages::run_ranks_of_page(3, one_fails), ContainsSubstring("no data"));
}
