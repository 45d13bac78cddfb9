#pragma once
#include <ostream>

#include <hero/dist/traffic.h>

namespace hero::dist {

/// What all communicators of one rank share.
struct RankState {
  Traffic traffic;
  std::ostream out{nullptr};  ///< no buffer: what is written is dropped
  bool met = false;           ///< a call of this rank is complete, so others are there
};

}  // namespace hero::dist
