#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include <hero/dist/backends/nccl/pending.h>

namespace hero::dist::nccl {
namespace {

constexpr auto kLast = std::chrono::seconds(5);  // for the last calls, where all have failed

}  // namespace

bool GpuRank::ask_for_messages() {
  if (unheard) std::rethrow_exception(std::exchange(unheard, nullptr));
  const AskingScope asking_for_all(*this);  // what that allocates or frees asks for nothing itself
  bool none_left = true;
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    while (!group->waiting.empty() && group->waiting.front()->stated_by_all()) {
      const std::shared_ptr<NcclPending> first = group->waiting.front();
      first->ask_all(group->comms.of(first->call));
      first->state(*group->rendezvous);
      group->waiting.pop_front();
    }
    for (auto& [ends, messages] : group->lanes) {
      while (!messages.waiting.empty()) {
        NcclPending& first = *messages.waiting.front();
        if (!first.stated_by_all()) break;
        Comm* const comm = messages.lane->ready();
        none_left = none_left && comm != nullptr;
        if (comm == nullptr) {
          first.check_others();
          break;
        }
        first.ask(*comm, [&](const End& end, const std::string& where) {
          ask_message(end, first.call, where);
        });
        first.state(*group->rendezvous);
        messages.waiting.pop_front();
      }
    }
  }
  return none_left;
}

bool GpuRank::has_messages() const {
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    if (!group->waiting.empty()) return true;
    for (const auto& [ends, messages] : group->lanes) {
      if (!messages.waiting.empty()) return true;
    }
  }
  return false;
}

bool GpuRank::wait_for_only_group() {
  std::shared_ptr<NcclPending> first;
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    const auto open = [](const auto& lane) { return !lane.second.waiting.empty(); };
    if (std::any_of(group->lanes.begin(), group->lanes.end(), open)) return false;
    if (group->waiting.empty()) continue;
    if (first) return false;
    first = group->waiting.front();
  }
  if (!first) return false;
  first->wait_for_all();
  return true;
}

bool GpuRank::wait_for_others(const std::function<bool()>& open) noexcept {
  try {
    const auto known = [](const auto& pending) { return !pending || pending->waits_for_nobody(); };
    const Clock::time_point start = Clock::now();
    while (!std::all_of(begun.begin(), begun.end(), known) || !(asking || open())) {
      if (!asking) go_on_with_messages();  // for which others may wait, as this rank does for them
      pause(start, "free");
    }
    return !asking || open();
  } catch (const std::exception&) {
    return false;  // the rank hears of it in its next call
  }
}

void GpuRank::go_on_with_messages() {
  try {
    ask_for_messages();
  } catch (...) {
    unheard = std::current_exception();
    throw;
  }
}

void GpuRank::confirm_all_but(const GpuGroup* group) {
  terms.watch->check();
  if (given_up) return;
  const auto open = [group](const auto& pending) {
    return pending && pending->unconfirmed() && pending->group() != group;
  };
  if (std::none_of(begun.begin(), begun.end(), open)) return;
  const std::vector<std::shared_ptr<NcclPending>> all = begun;
  for (const auto& pending : all) {
    if (open(pending)) pending->confirm(NcclPending::Join::no);
  }
}

void GpuRank::give_up() noexcept {
  given_up = true;
  const Clock::time_point deadline = Clock::now() + kLast;
  std::vector<const GpuGroup*>
      broken;  // what a group asked for behind a call that fails never ends
  for (const auto& pending : begun) {
    if (!pending || std::count(broken.begin(), broken.end(), pending->group()) > 0) continue;
    if (!pending->note_agreed()) broken.push_back(pending->group());
  }
  std::vector<std::thread> leaving;
  for (const auto& each : groups) {
    const std::shared_ptr<GpuGroup> group = each.lock();
    if (!group) continue;
    for (auto& [ends, messages] : group->lanes) {
      if (auto thread = messages.lane->leave()) leaving.push_back(std::move(*thread));
      messages.waiting.clear();
    }
    group->own.clear();
    group->waiting.clear();
  }
  terms.watch->abort_all(deadline);
  for (std::thread& thread : leaving) thread.join();
}

}  // namespace hero::dist::nccl
