#pragma once
#include <memory>
#include <ostream>
#include <vector>

#include <hero/dist/flight_recorder.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

class GroupOwners;

/// What all communicators of one rank share.
struct RankState {
  explicit RankState(int rank) : flight(std::make_shared<FlightRecorder>(rank)) {}
  Traffic traffic;
  const std::shared_ptr<FlightRecorder> flight;  ///< its last calls
  std::ostream out{nullptr};                     ///< no buffer: what is written is dropped
  bool met = false;  ///< a call of this rank is complete, so others are there
  std::vector<std::weak_ptr<GroupOwners>> owners;  ///< that live; see GroupOwners::of()
};

}  // namespace hero::dist
