#pragma once
// What the programs share: their options, their exit status, and numbers as Python writes them.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hero/core/device.h>

namespace tutorial {

/// What a program was told. What is absent is the chapter's own setting.
struct Options {
  std::optional<double> lr;
  std::optional<double> momentum;
  std::vector<double> start;  ///< empty or one number a coordinate
  std::optional<int> steps;
  std::string method;  ///< one of Program::methods, or empty: all of them
  hero::Device device = hero::kCpu;
  std::string out = "figures";  ///< folder for figures
};

struct Program {
  std::string title;
  int coordinates = 1;                    ///< numbers that --start takes
  std::vector<std::string> methods = {};  ///< choices of --method; none: there is no such option
  bool descends = true;  ///< false: there are no --lr, --momentum, --steps and --report
  bool momentum = true;  ///< false: there is no --momentum
};

/// Reads the options and runs `body` on the device (device.h). The exit status: 0, 1 after an
/// error, 2 for wrong usage.
int run(int argc, char** argv, const Program& program,
        const std::function<void(const Options&)>& body);

/// The shortest text that reads back as the same number, as Python's repr writes it.
std::string repr(double value);

}  // namespace tutorial
