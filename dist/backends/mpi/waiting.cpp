#include <algorithm>

#include <hero/dist/backends/mpi/rank_tree.h>
#include <hero/dist/backends/mpi/waiting.h>

namespace hero::dist {
namespace {

constexpr size_t kShownWaits = 8;
constexpr auto kBetweenQuestions = std::chrono::milliseconds(100);
constexpr auto kLostQuestion = std::chrono::seconds(5);

}  // namespace

void WaitReport::add(const WaitReport& other) {
  for (const auto& [key, ranks] : other.here) add_ranks(here[key], ranks);
  for (const auto& [text, ranks] : other.blocked) add_ranks(blocked[text], ranks);
  for (const auto& each : other.finished) {
    const auto same = std::find_if(finished.begin(), finished.end(),
                                   [&](const auto& have) { return have.first == each.first; });
    if (same == finished.end()) {
      finished.push_back(each);
    } else {
      add_ranks(same->second, each.second);
    }
  }
}

int WaitReport::standing() const {
  std::vector<int> all;
  for (const auto& [text, ranks] : blocked) add_ranks(all, ranks);
  for (const auto& [told, ranks] : finished) add_ranks(all, ranks);
  return static_cast<int>(all.size());
}

std::vector<int> WaitReport::finished_without(const CallKey& key) const {
  std::vector<int> without;
  for (const auto& [told, ranks] : finished) {
    if (!told.has(key)) add_ranks(without, ranks);
  }
  return without;
}

std::string WaitReport::text(int rank) const {
  for (const auto& [text, ranks] : blocked) {
    if (std::binary_search(ranks.begin(), ranks.end(), rank)) return text;
  }
  return {};
}

void put_ranks(Packet& packet, const std::vector<int>& ranks) { packet.put(runs_of(ranks)); }

std::vector<int> take_ranks(Packet& packet) { return ranks_of(packet.take_list<RankRun>()); }

void put_wait_report(Packet& packet, const WaitReport& report) {
  packet.put(report.here.size());
  for (const auto& [key, ranks] : report.here) put_ranks(packet.put(key), ranks);
  packet.put(report.finished.size());
  for (const auto& [told, ranks] : report.finished) {
    put_told(packet, told);
    put_ranks(packet, ranks);
  }
  packet.put(report.blocked.size());
  for (const auto& [text, ranks] : report.blocked) put_ranks(packet.put(text), ranks);
}

WaitReport take_wait_report(Packet& packet) {
  WaitReport report;
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    const auto key = packet.take<CallKey>();
    report.here[key] = take_ranks(packet);
  }
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    Told told = take_told(packet);
    report.finished.emplace_back(std::move(told), take_ranks(packet));
  }
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    const auto text = packet.take<std::string>();
    report.blocked[text] = take_ranks(packet);
  }
  return report;
}

void WaitAnswer::add(const WaitAnswer& other) {
  blocked = blocked && other.blocked;
  told += other.told;
  heard += other.heard;
  in.insert(other.in.begin(), other.in.end());
  while (in.size() > kShownWaits + 1) in.erase(std::prev(in.end()));
}

void put_wait_answer(Packet& packet, const WaitAnswer& answer) {
  packet.put(answer.blocked).put(answer.told).put(answer.heard).put(answer.in.size());
  for (const auto& [rank, text] : answer.in) packet.put(rank).put(text);
}

WaitAnswer take_wait_answer(Packet& packet) {
  WaitAnswer answer;
  answer.blocked = packet.take<bool>();
  answer.told = packet.take<uint64_t>();
  answer.heard = packet.take<uint64_t>();
  for (auto left = packet.take<size_t>(); left > 0; --left) {
    const int rank = packet.take<int>();
    answer.in[rank] = packet.take<std::string>();
  }
  return answer;
}

// [note: when no process can go on] A rank that has waited for a while without any bytes under way
// reports it up the tree. When all ranks have, rank 0 asks each of them whether it still waits, and
// asks again when all have answered yes. If both answers have the same total numbers of messages
// sent and received, and as many were sent as received, then no rank has sent or received a message
// between the two questions, all ranks waited at the moment of the second, and no message is under
// way that could wake one: a deadlock.
bool DeadlockSearch::asks(bool all_wait) {
  const auto now = Clock::now();
  const bool lost = !answered_ && now - since_ >= kLostQuestion;
  if (!answered_ && !lost) return false;
  if (!std::exchange(again_, false)) {
    if (!all_wait || now - since_ < kBetweenQuestions) return false;
    first_.reset();
  }
  since_ = now;
  answered_ = false;
  ++number_;
  return true;
}

bool DeadlockSearch::answer(const WaitAnswer& answer) {
  answered_ = true;
  since_ = Clock::now();
  const bool still = answer.blocked && !answer.in.empty() && answer.told == answer.heard;
  if (first_) {
    const bool same = first_->told == answer.told && first_->heard == answer.heard;
    first_.reset();
    return still && same;
  }
  if (still) first_ = answer;
  again_ = still;
  return false;
}

std::string DeadlockSearch::text(const WaitAnswer& answer) {
  std::string line = "deadlock: every rank waits";
  size_t shown = 0;
  for (const auto& [rank, text] : answer.in) {
    line += shown == 0 ? ": " : "; ";
    if (shown == kShownWaits) return line + "and further ranks";
    line += "rank " + std::to_string(rank) + " in " + text;
    ++shown;
  }
  return line + "; every rank must make the same calls in the same order";
}

}  // namespace hero::dist
