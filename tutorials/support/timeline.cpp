#include "timeline.h"

#include <algorithm>

namespace tutorial {

using Kind = hero::dist::Event::Kind;

namespace {

// "h.0" of "transformer.h.0".
std::string short_name(const std::string& path) {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

}  // namespace

Timeline::Timeline(const Communicator& world, const std::vector<hero::dist::UnitInfo>& units)
    : world_(world) {
  for (const auto& unit : units) {
    names_.push_back(short_name(unit.name));
    states_[names_.back()] = '.';
  }
}

void Timeline::add(const hero::dist::Event& event) {
  const std::string unit = short_name(event.unit);
  char& state = states_.at(unit);
  if (event.kind == Kind::gather) state = '~';
  if (event.kind == Kind::use) state = '#';
  if (event.kind == Kind::free) state = '.';
  if (event.kind == Kind::reduce || event.kind == Kind::reduced) {
    reducing_[unit] = event.kind == Kind::reduce;
  }
  most_ = std::max(most_,
                   static_cast<int>(std::count_if(states_.begin(), states_.end(),
                                                  [](const auto& s) { return s.second != '.'; })));
  line("  " + std::string(name(event.kind)) + " " + unit);
}

void Timeline::add(const std::string& what) { line(what); }

void Timeline::line(const std::string& what) {
  text_ += what;
  size_t column = 24;
  for (const std::string& unit : names_) {
    text_.resize(text_.rfind('\n') + 1 + column, ' ');
    text_ += states_[unit];
    if (reducing_[unit]) text_ += 'r';
    column += 6;
  }
  text_ += "\n";
}

void Timeline::print() const {
  std::string head;
  size_t column = 24;
  for (const std::string& unit : names_) {
    head.resize(column, ' ');
    head += unit;
    column += 6;
  }
  say(world_, "%s\n%s", head.c_str(), text_.c_str());
}

}  // namespace tutorial
