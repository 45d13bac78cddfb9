#pragma once
#include <memory>
#include <ostream>
#include <vector>

#include <hero/dist/flight_recorder.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

class CommunicatorGroup;

/// State that all communicators of one rank share.
struct RankState {
  explicit RankState(int rank) : flight(std::make_shared<FlightRecorder>(rank)) {}
  Traffic traffic;
  const std::shared_ptr<FlightRecorder> flight;  ///< the rank's last calls
  std::ostream out{nullptr};                     ///< no buffer: what is written is dropped
  bool met = false;  ///< true: a call of this rank was completed, so the other ranks have started
  std::vector<std::weak_ptr<CommunicatorGroup>>
      rank_groups;  ///< those that exist; see CommunicatorGroup::of()
};

}  // namespace hero::dist
