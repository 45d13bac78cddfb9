// Schedules of pipelines as data: what they promise of order, time, memory and messages.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/error.h>
#include <hero/dist/parallel/messages.h>
#include <hero/dist/pipeline_schedule.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;
using hero::test::error_of;
using Kind = Action::Kind;

using Actions = std::vector<std::vector<Action>>;  // of each rank

Actions actions_of_all(const Schedule& schedule, int ranks, int micro_batches) {
  Actions all;
  for (int r = 0; r < ranks; ++r) all.push_back(schedule.actions(r, ranks, micro_batches));
  return all;
}

// Every schedule at every p, m and v of the property tests.
template <class F>
void each_schedule(const F& body) {
  std::vector<Schedule> schedules = {Schedule::gpipe(), Schedule::one_f_one_b(),
                                     Schedule::zero_bubble()};
  for (int v = 1; v <= 3; ++v) schedules.push_back(Schedule::interleaved(v));
  for (const Schedule& schedule : schedules) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 16; ++m) body(schedule, p, m);
    }
  }
}

// Ticks of each kind of pass.
using Times = std::map<Kind, int>;
const Times kEqual = {{Kind::forward, 1}, {Kind::backward, 1}, {Kind::weights, 1}};

// The ticks of a step in which every pass takes its time, begins when what it needs is there, and
// messages take no time; nothing where ranks wait for ever.
std::optional<int> ticks_of(const Actions& all, int chunks, const Times& times = kEqual) {
  const int ranks = static_cast<int>(all.size()), stages = ranks * chunks;
  std::map<std::tuple<Kind, int, int>, int> end;  // of kind, stage, micro-batch
  std::vector<size_t> next(all.size(), 0);
  std::vector<int> free(all.size(), 0);
  const auto ready = [&](int rank, const Action& a) -> std::optional<int> {
    const int stage = a.chunk * ranks + rank;
    std::vector<std::tuple<Kind, int, int>> needs;
    if (a.kind == Kind::forward && stage > 0) needs.push_back({Kind::forward, stage - 1, a.micro});
    if (a.kind == Kind::backward) needs.push_back({Kind::forward, stage, a.micro});
    if (a.kind == Kind::backward && stage + 1 < stages) {
      needs.push_back({Kind::backward, stage + 1, a.micro});
    }
    if (a.kind == Kind::weights) needs.push_back({Kind::backward, stage, a.micro});
    int at = free[static_cast<size_t>(rank)];
    for (const auto& need : needs) {
      if (end.count(need) == 0) return {};
      at = std::max(at, end[need]);
    }
    return at;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < ranks; ++r) {
      auto& at = next[static_cast<size_t>(r)];
      const auto& mine = all[static_cast<size_t>(r)];
      while (at < mine.size()) {
        const auto begin = ready(r, mine[at]);
        if (!begin) break;
        const int stage = mine[at].chunk * ranks + r;
        const int until = *begin + times.at(mine[at].kind);
        free[static_cast<size_t>(r)] = end[{mine[at].kind, stage, mine[at].micro}] = until;
        ++at;
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < all.size(); ++r) {
    if (next[r] < all[r].size()) return {};
  }
  return *std::max_element(free.begin(), free.end());
}

// The most passes that are between one kind of action and another on a rank at a time.
int most_held(const std::vector<Action>& actions, Kind from = Kind::forward,
              Kind to = Kind::backward) {
  int held = 0, most = 0;
  for (const Action& action : actions) {
    held += action.kind == from ? 1 : action.kind == to ? -1 : 0;
    most = std::max(most, held);
  }
  return most;
}

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

// A rank's program in messages alone, as dist/pipeline.h runs a plan: receives are posted, then
// what the action needs is awaited, then what it makes is sent.
struct MessageRun {
  const MessagePlan& plan;
  int ranks;
  using Pair = std::pair<int, int>;
  std::map<Pair, std::vector<Action>> sent, posted;  // by sender and receiver
  std::vector<std::vector<std::vector<Message>>> receives = {};
  std::vector<size_t> next = {};
  std::set<std::pair<int, std::string>> own = {};  // made by a rank for itself

  MessageRun(const MessagePlan& p, int n) : plan(p), ranks(n) {
    for (int r = 0; r < n; ++r) receives.push_back(plan.receives(r));
    next.resize(static_cast<size_t>(n), 0);
  }
  // True when the message that the rank's action waits for is there: its receive is posted, it
  // meets a send of the same thing.
  bool arrived(int rank, const Action& action) {
    if (own.count({rank, to_string(action)}) > 0) return true;
    for (int from = 0; from < ranks; ++from) {
      const auto& waiting = posted[{from, rank}];
      const auto found = std::find(waiting.begin(), waiting.end(), action);
      if (found == waiting.end()) continue;
      const auto number = static_cast<size_t>(found - waiting.begin());
      const auto& there = sent[{from, rank}];
      return number < there.size() && there[number] == action;
    }
    return false;
  }
  // Goes on with one rank as far as it can; true when it moved.
  bool advance(int rank) {
    auto& at = next[static_cast<size_t>(rank)];
    const auto& mine = plan.actions(rank);
    bool moved = false;
    std::vector<Message> none;
    for (; at < mine.size(); ++at, moved = true) {
      for (const Message& m : std::exchange(receives[static_cast<size_t>(rank)][at], none)) {
        posted[{m.from, rank}].push_back(m.action);
        moved = true;
      }
      if (plan.has_input(rank, mine[at]) && !arrived(rank, mine[at])) return moved;
      if (!plan.has_output(rank, mine[at])) continue;
      const Message made = plan.output(rank, mine[at]);
      if (made.to == rank) own.insert({rank, to_string(made.action)});
      if (made.to != rank) sent[{rank, made.to}].push_back(made.action);
    }
    return moved;
  }
  bool finish() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < ranks; ++r) moved = advance(r) || moved;
    }
    for (int r = 0; r < ranks; ++r) {
      if (next[static_cast<size_t>(r)] < plan.actions(r).size()) return false;
    }
    for (auto* all : {&sent, &posted}) {
      std::erase_if(*all, [](const auto& list) { return list.second.empty(); });
    }
    return sent == posted;  // every send has met its receive, in its order
  }
};

}  // namespace

TEST_CASE("the schedules of four stages and four micro-batches", "[schedule]") {
  CHECK(text_of(Schedule::gpipe().actions(0, 4, 4)) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(text_of(Schedule::one_f_one_b().actions(0, 4, 4)) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(text_of(Schedule::one_f_one_b().actions(2, 4, 4)) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(text_of(Schedule::one_f_one_b().actions(3, 4, 4)) == "F0 B0 F1 B1 F2 B2 F3 B3");
  CHECK(text_of(Schedule::interleaved(2).actions(0, 2, 4)) ==
        "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  CHECK(text_of(Schedule::interleaved(2).actions(1, 2, 3)) ==
        "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 B1 F2.1 B2.1 B2");
  CHECK(Schedule::gpipe().name() == "gpipe");
  CHECK(Schedule::one_f_one_b().name() == "1f1b");
  CHECK(text_of(Schedule::zero_bubble().actions(0, 4, 4)) == "F0 F1 F2 F3 B0 W0 B1 W1 B2 W2 B3 W3");
  CHECK(text_of(Schedule::zero_bubble().actions(2, 4, 4)) == "F0 F1 B0 F2 B1 F3 B2 W0 B3 W1 W2 W3");
  CHECK(text_of(Schedule::zero_bubble().actions(3, 4, 2)) == "F0 B0 F1 B1 W0 W1");
  CHECK(Schedule::interleaved(3).name() == "interleaved(3)");
  CHECK(Schedule::zero_bubble().name() == "zero_bubble");
}

TEST_CASE("every schedule runs each pass once and backwards in the order of micro-batches",
          "[schedule]") {
  each_schedule([](const Schedule& schedule, int p, int m) {
    for (int r = 0; r < p; ++r) {
      const std::vector<Action> actions = schedule.actions(r, p, m);
      CAPTURE(schedule.name(), p, m, r, text_of(actions));
      const int kinds = schedule.splits_backward() ? 3 : 2;
      REQUIRE(actions.size() == static_cast<size_t>(kinds * m * schedule.chunks()));
      std::map<std::pair<Kind, int>, int> next;  // micro-batch of each kind and chunk
      bool in_order = true, forward_first = true, backward_first = true;
      for (const Action& a : actions) {
        in_order = in_order && a.micro == next[{a.kind, a.chunk}]++;
        forward_first =
            forward_first && (a.kind == Kind::forward || a.micro < next[{Kind::forward, a.chunk}]);
        backward_first = backward_first &&
                         (a.kind != Kind::weights || a.micro < next[{Kind::backward, a.chunk}]);
      }
      REQUIRE(backward_first);
      REQUIRE(in_order);
      REQUIRE(forward_first);
    }
  });
}

TEST_CASE("at equal times of all passes the bubble is the formula's", "[schedule]") {
  each_schedule([](const Schedule& schedule, int p, int m) {
    const int v = schedule.chunks();
    const auto ticks = ticks_of(actions_of_all(schedule, p, m), v);
    CAPTURE(schedule.name(), p, m);
    REQUIRE(ticks.has_value());
    if (schedule.splits_backward()) {
      // a bubble of (p - 1) (F + B - W); with fewer micro-batches than ranks what the first rank
      // waits for is longer than the gradients of weights that it has
      REQUIRE(*ticks == 3 * m + p - 1 + std::max(0, p - m));
      return;
    }
    const int full = v == 1 && schedule.name() != "interleaved(1)" ? m : (m + p - 1) / p * p;
    if (full == m) {
      // of ticks = 2 (v m + p - 1) a rank works 2 v m
      REQUIRE(*ticks == 2 * (v * m + p - 1));
    } else {
      REQUIRE(*ticks >= 2 * (v * m + p - 1));
      REQUIRE(*ticks <= 2 * (v * full + p - 1));
    }
  });
  const auto idle = [](const Schedule& schedule, int p, int m) {
    const int ticks = ticks_of(actions_of_all(schedule, p, m), schedule.chunks()).value();
    return 1.0 - 2.0 * m * schedule.chunks() / ticks;
  };
  CHECK(idle(Schedule::gpipe(), 4, 8) == Approx(3.0 / 11.0));
  CHECK(idle(Schedule::one_f_one_b(), 4, 8) == Approx(3.0 / 11.0));
  CHECK(idle(Schedule::interleaved(2), 4, 8) == Approx(3.0 / 19.0));
  const int split = ticks_of(actions_of_all(Schedule::zero_bubble(), 4, 8), 1).value();
  CHECK(1.0 - 24.0 / split == Approx(3.0 / 27.0));
}

TEST_CASE("the gradients of weights fill the bubble at other times, too", "[schedule]") {
  for (const auto& [f, b, w] : {std::tuple(2, 2, 1), {1, 2, 1}, {2, 3, 2}, {3, 3, 2}}) {
    const Times times = {{Kind::forward, f}, {Kind::backward, b}, {Kind::weights, w}};
    const Times whole = {{Kind::forward, f}, {Kind::backward, b + w}};
    for (int p = 1; p <= 8; ++p) {
      for (int m = p; m <= 16; ++m) {
        CAPTURE(f, b, w, p, m);
        const Actions split = actions_of_all(Schedule::zero_bubble(), p, m);
        CHECK(ticks_of(split, 1, times).value() == m * (f + b + w) + (p - 1) * (f + b - w));
        const Actions early = actions_of_all(Schedule::one_f_one_b(), p, m);
        CHECK(ticks_of(early, 1, whole).value() == (m + p - 1) * (f + b + w));
      }
    }
  }
}

TEST_CASE("what waits for backward is bounded by the schedule", "[schedule]") {
  each_schedule([](const Schedule& schedule, int p, int m) {
    const int v = schedule.chunks();
    for (int r = 0; r < p; ++r) {
      const int held = most_held(schedule.actions(r, p, m));
      CAPTURE(schedule.name(), p, m, r);
      if (schedule.name() == "gpipe") {
        REQUIRE(held == m);
      } else if (schedule.name() == "1f1b") {
        REQUIRE(held == std::min(p - r, m));
      } else if (schedule.splits_backward()) {
        const std::vector<Action> actions = schedule.actions(r, p, m);
        REQUIRE(held == std::min(p - r, m));
        REQUIRE(most_held(actions, Kind::backward, Kind::weights) == std::min(r + 1, m));
        REQUIRE(most_held(actions, Kind::forward, Kind::weights) == std::min(p, m));
      } else {
        REQUIRE(held <= std::min(v * m, 2 * (p - r - 1) + (v - 1) * p + 1));
      }
    }
  });
}

TEST_CASE("receives are posted before anything waits and meet the sends in their order",
          "[schedule]") {
  each_schedule([](const Schedule& schedule, int p, int m) {
    CAPTURE(schedule.name(), p, m);
    const MessagePlan plan(actions_of_all(schedule, p, m), schedule.chunks());
    REQUIRE(MessageRun(plan, p).finish());
    Actions forwards = actions_of_all(schedule, p, m);
    for (auto& list : forwards) {
      std::erase_if(list, [](const Action& a) { return a.kind != Kind::forward; });
    }
    const MessagePlan forward_plan(forwards, schedule.chunks());
    REQUIRE(MessageRun(forward_plan, p).finish());
  });
}

TEST_CASE("a plan whose receives come too late or in another order is found", "[schedule]") {
  Actions all = actions_of_all(Schedule::one_f_one_b(), 2, 4);
  std::swap(all[1][0], all[1][1]);  // a backward before its forward
  CHECK_FALSE(ticks_of(all, 1).has_value());
  const MessagePlan plan(actions_of_all(Schedule::interleaved(2), 2, 4), 2);
  MessageRun run(plan, 2);
  for (auto& posts : run.receives[1]) std::reverse(posts.begin(), posts.end());
  CHECK_FALSE(run.finish());
}

TEST_CASE("a receive is posted one action before the one that needs it", "[schedule]") {
  const MessagePlan plan(actions_of_all(Schedule::one_f_one_b(), 4, 4), 1);
  const auto posts = plan.receives(1);  // F0 F1 F2 B0 F3 B1 B2 B3
  std::vector<std::string> texts;
  for (const auto& list : posts) {
    std::string text;
    for (const Message& m : list) text += to_string(m.action) + "<" + std::to_string(m.from) + " ";
    texts.push_back(text);
  }
  CHECK(texts == std::vector<std::string>{"F0<0 F1<0 ", "F2<0 ", "B0<2 ", "F3<0 ", "B1<2 ", "B2<2 ",
                                          "B3<2 ", ""});
}

TEST_CASE("bad input of a schedule is one clear line", "[schedule]") {
  CHECK_THAT(error_of([] { Schedule::interleaved(0); }),
             ContainsSubstring("schedule: interleaved needs a chunk or more: 0"));
  CHECK_THAT(error_of([] { static_cast<void>(Schedule::gpipe().actions(2, 2, 1)); }),
             ContainsSubstring("schedule: rank 2 of 2"));
  CHECK_THAT(error_of([] { static_cast<void>(Schedule::gpipe().actions(0, 2, 0)); }),
             ContainsSubstring("schedule: 0 micro-batches; take one or more"));
}
