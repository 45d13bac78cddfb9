#include <algorithm>
#include <bit>
#include <set>

#include <hero/dist/backends/hosts.h>

namespace hero::dist {

int ranks_of_host(std::span<const int> hosts) {
  if (hosts.empty()) return 0;
  const auto of_first =
      std::ranges::find_if(hosts, [&](int host) { return host != hosts.front(); });
  const auto h = static_cast<size_t>(of_first - hosts.begin());
  if (h == 1 || h == hosts.size() || !std::has_single_bit(h) || hosts.size() % h != 0) return 0;
  std::set<int> seen;
  for (size_t first = 0; first < hosts.size(); first += h) {
    const std::span<const int> of_one = hosts.subspan(first, h);
    const bool same = std::ranges::count(of_one, of_one.front()) == static_cast<int64_t>(h);
    if (!same || !seen.insert(of_one.front()).second) return 0;
  }
  return static_cast<int>(h);
}

}  // namespace hero::dist
