#include <string>

#include <hero/core/json/json.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/trainer/same_config.h>

namespace hero::dist {

namespace {

// Adds a line, such as "zero_optimization/stage 3", for each value that is not an object or list.
void add_lines(const core::JSON& value, const std::string& path, std::string& lines) {
  const std::string below = path.empty() ? "" : path + "/";
  if (value.is_object()) {
    for (const auto& [name, member] : value.members()) add_lines(member, below + name, lines);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) add_lines(value[i], below + std::to_string(i), lines);
  } else {
    lines += path + " " + value.dump() + "\n";
  }
}

}  // namespace

void check_same_config(const Config& config, const Communicator& world) {
  Config compared = config;
  for (std::string* folder : {&compared.zero.states_folder, &compared.zero.parameters_folder}) {
    if (!folder->empty()) *folder = "a folder";
  }
  compared.report.clear();
  compared.steps_per_print = 0;
  compared.wall_clock_breakdown = false;
  std::string lines;
  add_lines(core::parse_json(compared.text(), "trainer", "the configuration"), "", lines);
  same_lines(world, "trainer: ranks have different configurations", lines,
             "give every rank the same Config", "configuration");
}

}  // namespace hero::dist
