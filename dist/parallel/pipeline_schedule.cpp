#include <algorithm>
#include <charconv>

#include <hero/core/error.h>
#include <hero/dist/pipeline_schedule.h>

namespace hero::dist {
namespace {

using Kind = Action::Kind;

// The passes of one kind, in their order: rounds of p micro-batches go through all chunks.
std::vector<Action> passes(Kind kind, int chunks, int ranks, int micro_batches) {
  std::vector<Action> list;
  for (int first = 0; first < micro_batches; first += ranks) {
    const int last = std::min(first + ranks, micro_batches);
    for (int i = 0; i < chunks; ++i) {
      const int chunk = kind == Kind::forward ? i : chunks - 1 - i;
      for (int micro = first; micro < last; ++micro) list.push_back({kind, chunk, micro});
    }
  }
  return list;
}

// So many forwards, then one forward and one backward in turn, then the backwards that are left.
std::vector<Action> alternate(const std::vector<Action>& forwards,
                              const std::vector<Action>& backwards, int ahead) {
  const size_t first = std::min(static_cast<size_t>(ahead), forwards.size());
  std::vector<Action> list(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(first));
  for (size_t i = 0; i < backwards.size(); ++i) {
    if (first + i < forwards.size()) list.push_back(forwards[first + i]);
    list.push_back(backwards[i]);
  }
  return list;
}

// Gradients of weights `behind` backwards after their own.
std::vector<Action> with_weights(const std::vector<Action>& actions, int behind) {
  std::vector<Action> list;
  std::vector<Action> waiting;
  for (const Action& action : actions) {
    list.push_back(action);
    if (action.kind != Kind::backward) continue;
    waiting.push_back({Kind::weights, action.chunk, action.micro});
    if (static_cast<int>(waiting.size()) <= behind) continue;
    list.push_back(waiting.front());
    waiting.erase(waiting.begin());
  }
  list.insert(list.end(), waiting.begin(), waiting.end());
  return list;
}

}  // namespace

std::string to_string(const Action& action) {
  constexpr const char* letters[] = {"F", "B", "W"};
  const std::string text = letters[static_cast<int>(action.kind)] + std::to_string(action.micro);
  return action.chunk == 0 ? text : text + "." + std::to_string(action.chunk);
}

Schedule Schedule::interleaved(int chunks) {
  check(chunks > 0, "schedule: interleaved needs a chunk or more: ", chunks);
  return {Type::interleaved, chunks};
}

Schedule Schedule::named(const std::string& name) {
  for (const Schedule& known : {gpipe(), one_f_one_b(), zero_bubble()}) {
    if (known.name() == name) return known;
  }
  const std::string head = "interleaved(";
  if (name.starts_with(head) && name.ends_with(")")) {
    const char *begin = name.data() + head.size(), *end = name.data() + name.size() - 1;
    int chunks = 0;
    if (std::from_chars(begin, end, chunks).ptr == end && chunks > 0) return interleaved(chunks);
  }
  fail("schedule: '", name,
       "' is none; there are gpipe, 1f1b, zero_bubble and interleaved(CHUNKS)");
}

std::string Schedule::name() const {
  if (type_ == Type::gpipe) return "gpipe";
  if (type_ == Type::one_f_one_b) return "1f1b";
  if (type_ == Type::zero_bubble) return "zero_bubble";
  return "interleaved(" + std::to_string(chunks_) + ")";
}

// [note: rounds that are not full] Where p does not divide m the interleaved schedule is that of
// the next larger m that it does divide, without the micro-batches that are not there: what waits
// for what belongs to one micro-batch, so leaving some out makes no rank wait for ever.
std::vector<Action> Schedule::actions(int rank, int ranks, int micro_batches) const {
  check(ranks > 0 && rank >= 0 && rank < ranks, "schedule: rank ", rank, " of ", ranks);
  check(micro_batches > 0, "schedule: ", micro_batches, " micro-batches; take one or more");
  const bool rounds = type_ == Type::interleaved;
  const int full = rounds ? (micro_batches + ranks - 1) / ranks * ranks : micro_batches;
  const std::vector<Action> forwards = passes(Kind::forward, chunks_, ranks, full);
  const std::vector<Action> backwards = passes(Kind::backward, chunks_, ranks, full);
  const int behind = ranks - 1 - rank;
  int ahead = full;
  if (type_ == Type::one_f_one_b || type_ == Type::zero_bubble) ahead = behind;
  if (rounds) ahead = 2 * behind + (chunks_ - 1) * ranks;
  std::vector<Action> list = alternate(forwards, backwards, ahead);
  std::erase_if(list, [&](const Action& action) { return action.micro >= micro_batches; });
  return splits_backward() ? with_weights(list, rank) : list;
}

}  // namespace hero::dist
