#include <string>

#include <nlohmann/json.hpp>

#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/trainer/same_config.h>

namespace hero::dist {

void check_same_config(const Config& config, const Communicator& world) {
  Config compared = config;
  for (std::string* folder : {&compared.zero.states_folder, &compared.zero.parameters_folder}) {
    if (!folder->empty()) *folder = "a folder";
  }
  compared.report.clear();
  compared.steps_per_print = 0;
  compared.wall_clock_breakdown = false;
  std::string lines;
  const nlohmann::json keys = nlohmann::json::parse(compared.text()).flatten();
  for (const auto& [path, value] : keys.items()) {
    if (!path.empty()) lines += path.substr(1) + " " + value.dump() + "\n";
  }
  same_lines(world, "trainer: ranks have different configurations", lines,
             "give every rank the same Config", "configuration");
}

}  // namespace hero::dist
