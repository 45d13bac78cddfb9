#include "support/lessons/timeline.h"

#include <algorithm>

#include "support/pictures/palette.h"
#include "support/pictures/plot.h"

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
  Moment& moment = moments_.emplace_back(Moment{what, {}, {}});
  for (const std::string& unit : names_) {
    moment.states += states_[unit];
    moment.reducing.push_back(reducing_[unit]);
  }
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

namespace {

// Where a value begins that holds until `end`, for each run of equal ones.
template <class Value, class Found>
void runs(size_t count, const Value& value, const Found& found) {
  for (size_t begin = 0; begin < count;) {
    size_t end = begin + 1;
    while (end < count && value(end) == value(begin)) ++end;
    found(begin, end);
    begin = end;
  }
}

}  // namespace

void Timeline::draw(const std::string& folder) const {
  if (world_.rank() > 0) return;
  Figure figure("FSDP on one rank: units are gathered (pink), whole (blue), reduced (orange)",
                "events in order: forward, backward (∇)", "");
  std::vector<Tick> lanes;
  const size_t count = moments_.size();
  for (size_t unit = 0; unit < names_.size(); ++unit) {
    const double y = -static_cast<double>(unit);
    lanes.push_back({y - 0.5, names_[unit]});
    const auto box = [&](size_t begin, size_t end, double low, double height, const char* colour,
                         const char* text) {
      figure.box(static_cast<double>(begin), y + low, static_cast<double>(end - begin), height,
                 colour, end - begin > 4 ? text : "");  // which fits
    };
    const auto state = [&](size_t i) { return moments_[i].states[unit]; };
    runs(count, state, [&](size_t begin, size_t end) {
      if (state(begin) == '~') box(begin, end, -0.6, 0.5, kGatherColour, "gather");
      if (state(begin) == '#') box(begin, end, -0.6, 0.5, kParameterColour, "whole");
    });
    const auto reducing = [&](size_t i) { return static_cast<bool>(moments_[i].reducing[unit]); };
    runs(count, reducing, [&](size_t begin, size_t end) {
      if (reducing(begin)) box(begin, end, -0.95, 0.3, kReduceColour, "reduce");
    });
  }
  // what the modules do, between the units' events
  const double floor = -static_cast<double>(names_.size());
  std::vector<Tick> modules;
  for (size_t i = 0; i < count; ++i) {
    const std::string& what = moments_[i].what;
    if (what[0] == ' ') continue;
    const size_t of = what.find(" of ");
    const std::string unit = of == std::string::npos ? what : what.substr(of + 4);
    if (what == "loss") continue;  // its name does not fit between those of the last block
    modules.push_back({static_cast<double>(i) + 0.5, (what[0] == 'b' ? "∇" : "") + unit});
  }
  figure.x_range(0, static_cast<double>(count)).y_range(floor - 0.2, 0.2);
  figure.x_ticks(modules).y_ticks(lanes).save(folder, "17_fsdp_step");
}

}  // namespace tutorial
