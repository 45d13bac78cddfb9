#pragma once
// Chapter 17: what happens to units during a step, as lines of text and as a picture.
#include <map>
#include <string>
#include <vector>

#include "support/options/ranks.h"

namespace tutorial {

/// A line an event and a column a unit: '.' each rank has its part, '~' being gathered, '#' whole,
/// 'r' gradients being reduced.
class Timeline {
 public:
  Timeline(const Communicator& world, const std::vector<hero::dist::UnitInfo>& units);
  /// For DataParallel::on_event.
  void add(const hero::dist::Event& event);
  /// Something that a module does.
  void add(const std::string& what);
  void print() const;
  /// A lane a unit over the events, into folder/17_fsdp_step; rank 0 alone.
  void draw(const std::string& folder) const;
  /// The most units that were whole or being gathered at once.
  int most_gathered() const { return most_; }

 private:
  /// After one line: each unit's state, as in the text.
  struct Moment {
    std::string what, states;
    std::vector<bool> reducing;
  };
  void line(const std::string& what);

  const Communicator& world_;
  std::vector<std::string> names_;
  std::map<std::string, char> states_;
  std::map<std::string, bool> reducing_;
  std::string text_;
  std::vector<Moment> moments_;
  int most_ = 0;
};

}  // namespace tutorial
