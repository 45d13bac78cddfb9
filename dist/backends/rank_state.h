#pragma once
#include <memory>
#include <ostream>
#include <vector>

#include <hero/dist/traffic.h>

namespace hero::dist {

class GroupOwners;

/// What all communicators of one rank share.
struct RankState {
  Traffic traffic;
  std::ostream out{nullptr};  ///< no buffer: what is written is dropped
  bool met = false;           ///< a call of this rank is complete, so others are there
  std::vector<std::weak_ptr<GroupOwners>> owners;  ///< that live; see GroupOwners::of()
};

}  // namespace hero::dist
