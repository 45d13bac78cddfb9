#include <algorithm>
#include <map>
#include <numeric>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/agree.h>

namespace hero::dist {
namespace {

// What was said, each thing once, and by whom unless by all.
std::string joined(const std::map<std::string, std::vector<int>>& said, int ranks) {
  std::string text;
  for (const auto& [thing, from] : said) {
    text += (text.empty() ? "" : "; ") + thing;
    if (static_cast<int>(from.size()) < ranks) text += " (" + rank_list(from) + ")";
  }
  return text;
}

}  // namespace

void check_not_simulated(const Communicator& world) {
  check(!world.defined() || world.engine_kind() != EngineKind::simulated,
        "checkpoint: simulated ranks have no values to save or load");
}

std::vector<std::string> tell_all(const Communicator& world, const std::string& text,
                                  const char* unit) {
  if (size_of(world) == 1) return {text};
  const Array sizes = Array::empty({world.size()}, kInt64);
  world.all_gather(sizes, Array::from(std::vector<int64_t>{static_cast<int64_t>(text.size())}, {1}),
                   {.unit = unit});
  const std::vector<int64_t> counts = sizes.to_vector<int64_t>();
  const std::vector<uint8_t> mine(text.begin(), text.end());
  const Array all =
      Array::empty({std::accumulate(counts.begin(), counts.end(), int64_t{0})}, kUInt8);
  world.all_gather(all, Array::from(mine, {static_cast<int64_t>(mine.size())}),
                   {.unit = unit, .counts = counts});
  std::vector<std::string> texts;
  const auto* at = reinterpret_cast<const char*>(all.numel() > 0 ? all.bytes() : nullptr);
  for (const int64_t count : counts) {
    texts.emplace_back(at, static_cast<size_t>(count));
    at += count;
  }
  return texts;
}

void same_on_all(const Communicator& world, const std::string& what, const std::string& text) {
  std::map<std::string, std::vector<int>> said;
  const std::vector<std::string> all = tell_all(world, text);
  for (size_t i = 0; i < all.size(); ++i) said[all[i]].push_back(static_cast<int>(i));
  check(said.size() == 1, what, ": ", joined(said, size_of(world)));
}

std::vector<std::string> each_rank(const Communicator& world,
                                   const std::function<std::string()>& body) {
  check_not_simulated(world);
  std::string said;
  try {
    said = "=" + body();
  } catch (const std::exception& error) {
    said = std::string("!") + error.what();
  }
  std::vector<std::string> all = tell_all(world, said);
  std::map<std::string, std::vector<int>> errors;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i][0] == '!') errors[all[i].substr(1)].push_back(static_cast<int>(i));
    all[i].erase(0, 1);
  }
  if (!errors.empty()) throw Error(joined(errors, size_of(world)));
  return all;
}

void agree(const Communicator& world, const std::function<void()>& body) {
  each_rank(world, [&] {
    body();
    return std::string();
  });
}

std::string on_rank_0(const Communicator& world, const std::function<std::string()>& body) {
  return each_rank(world, [&] { return rank_of(world) == 0 ? body() : std::string(); })[0];
}

}  // namespace hero::dist
