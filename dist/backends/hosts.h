#pragma once
// How the ranks of a group lie on hosts.
#include <span>

namespace hero::dist {

/// `hosts[r]` is a number of the host of rank r. Returns h > 1 if there are several hosts, rank r
/// lies on the host of rank r / h * h, no other host, and h is a power of two: then the ranks of a
/// host are a subtree of Order::tree. Returns 0 for ranks that lie in any other way.
int ranks_of_host(std::span<const int> hosts);

}  // namespace hero::dist
