#pragma once
// A program's options, and its exit status: for programs with options of their own.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <hero/core/device.h>

namespace CLI {
class App;
}

namespace tutorial {

/// Options by name, each with a line for --help:
///
///   Command command("Trains a model.");
///   command.flag("--quick", quick, "a small run").count("--steps", steps, "how many");
///   return command.run(argc, argv, [&] { ...; return 0; });
class Command {
 public:
  explicit Command(const std::string& title);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& flag(const std::string& name, bool& value, const std::string& help);
  Command& text(const std::string& name, std::string& value, const std::string& help);
  /// A whole number from `low` to 10^9.
  Command& count(const std::string& name, std::optional<int64_t>& value, const std::string& help,
                 int64_t low = 1);
  /// A number above 0.
  Command& number(const std::string& name, std::optional<double>& value, const std::string& help);

  /// --device: where models and data lie; cpu unless it is given. See OnDevice (device.h).
  Command& device(hero::Device& value);

  /// --out: the folder for figures.
  Command& out(std::string& folder);
  /// Makes the folder that --out names; an Error where it cannot be made or written into. A folder
  /// that is not named is made with the first figure, and without figures the program runs all the
  /// same.
  void make_out() const;

  /// For options of other kinds.
  CLI::App& app() { return *app_; }

  /// Reads the options and runs `body`. The exit status: the body's, 1 after an error, 2 for wrong
  /// usage.
  int run(int argc, char** argv, const std::function<int()>& body);

 private:
  std::unique_ptr<CLI::App> app_;
  const std::string* out_ = nullptr;
};

}  // namespace tutorial
