#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include <hero/core/error.h>
#include <hero/core/io/sha256.h>
#include <hero/dist/checkpoint/agree.h>

namespace hero::dist {
namespace {

// The messages, each once, with the ranks that have it unless all have.
std::string joined(const std::map<std::string, std::vector<int>>& said, int ranks) {
  std::vector<std::string> things;
  for (const auto& [thing, from] : said) {
    const bool all = static_cast<int>(from.size()) == ranks;
    things.push_back(all ? thing : thing + " (" + rank_list(from) + ")");
  }
  return first_of(things);
}

// Rank 0's text, on every rank.
std::string tell_from_0(const Communicator& world, const std::string& text, const char* unit) {
  const Array size = Array::full({1}, static_cast<int64_t>(text.size()), kInt64);
  world.broadcast(size, 0, {.unit = unit});
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.resize(static_cast<size_t>(size.item<int64_t>()));
  const Array all = Array::from(bytes, {size.item<int64_t>()});
  world.broadcast(all, 0, {.unit = unit});
  bytes = all.to_vector<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

// The line in which a text has its byte `at`.
std::string line_at(const std::string& text, size_t at) {
  if (at >= text.size()) return "nothing more";
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void check_not_simulated(const Communicator& world) {
  check(!world.defined() || world.backend_kind() != BackendKind::simulated,
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

std::string first_of(const std::vector<std::string>& things) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(things.size(), kShown); ++i) {
    text += (i > 0 ? "; " : "") + things[i];
  }
  if (things.size() <= kShown) return text;
  return text + "; .. and " + std::to_string(things.size() - kShown) + " more";
}

void check_same(const std::string& what, const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int>> said;
  for (size_t i = 0; i < texts.size(); ++i) said[texts[i]].push_back(static_cast<int>(i));
  check(said.size() == 1, what, ": ", joined(said, static_cast<int>(texts.size())));
}

void same_on_all(const Communicator& world, const std::string& what, const std::string& text,
                 const char* unit) {
  check_same(what, tell_all(world, text, unit));
}

void same_lines(const Communicator& world, const std::string& what, const std::string& lines,
                const std::string& advice, const char* unit) {
  if (size_of(world) == 1) return;
  const std::vector<std::string> hashes =
      tell_all(world, sha256(std::as_bytes(std::span(lines))), unit);
  const auto other = std::find_if(hashes.begin(), hashes.end(),
                                  [&](const auto& hash) { return hash != hashes.front(); });
  if (other == hashes.end()) return;
  const std::string first = tell_from_0(world, lines, unit);
  const auto size = static_cast<std::ptrdiff_t>(std::min(first.size(), lines.size()));
  const auto at = static_cast<size_t>(
      std::mismatch(first.begin(), first.begin() + size, lines.begin()).first - first.begin());
  const std::string mine = "rank 0 has " + line_at(first, at) + ", rank " +
                           std::to_string(world.rank()) + " has " + line_at(lines, at);
  const std::vector<std::string> said = tell_all(world, mine, unit);
  fail(what, ": ", said[static_cast<size_t>(other - hashes.begin())], "; ", advice);
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
