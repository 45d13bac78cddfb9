#include "support/options/command.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "support/options/number.h"
#include <CLI/CLI.hpp>
#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/io/file.h>

namespace tutorial {

CLI::Validator number_that(const std::function<bool(double)>& test, const std::string& what) {
  return CLI::Validator(
      [test, what](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool whole = !text.empty() && *end == '\0' && std::isfinite(value);
        return whole && test(value) ? std::string() : text + " is not " + what;
      },
      "");
}

Command::Command(const std::string& title) : app_(std::make_unique<CLI::App>(title)) {}
Command::~Command() = default;

Command& Command::flag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
  return *this;
}

Command& Command::text(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->capture_default_str();
  return *this;
}

Command& Command::count(const std::string& name, std::optional<int64_t>& value,
                        const std::string& help, int64_t low) {
  constexpr int64_t kHigh = 1'000'000'000;
  const auto fits = [low](double v) {
    return v >= static_cast<double>(low) && v <= static_cast<double>(kHigh) && v == std::floor(v);
  };
  const std::string range = std::to_string(low) + " to " + std::to_string(kHigh);
  app_->add_option(name, value, help)->check(number_that(fits, "a whole number from " + range));
  return *this;
}

Command& Command::number(const std::string& name, std::optional<double>& value,
                         const std::string& help) {
  app_->add_option(name, value, help)
      ->check(number_that([](double v) { return v > 0.0; }, "a number above 0"));
  return *this;
}

Command& Command::device(hero::Device& value) {
  const auto set = [&value](const std::string& name) {
    try {
      value = hero::parse_device(name);
      hero::check(value != hero::kMeta, "device: meta has shapes but no values; use cpu or cuda");
    } catch (const hero::Error& error) {
      throw CLI::ValidationError("--device", error.what());
    }
  };
  app_->add_option_function<std::string>("--device", set,
                                         "where models and data lie: cpu, cuda or cuda:N");
  return *this;
}

Command& Command::out(std::string& folder) {
  out_ = &folder;
  app_->add_option("--out", folder, "folder for figures")->capture_default_str();
  return *this;
}

void Command::make_out() const {
  if (app_->count("--out") == 0) return;
  hero::make_folders("--out", *out_);
  const bool writable = ::access(out_->c_str(), W_OK | X_OK) == 0;
  hero::check(writable, "--out: cannot write into the folder ", *out_, ": ", std::strerror(errno));
}

int Command::run(int argc, char** argv, const std::function<int()>& body) {
  const std::string path = argv[0];
  const std::string name = path.substr(path.rfind('/') + 1);
  app_->name(name);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app_->help().c_str(), stdout);
    return 0;
  } catch (const CLI::ExtrasError&) {  // its own text has them from the last to the first
    std::string words;
    for (const std::string& word : app_->remaining()) words += " " + word;
    std::fprintf(stderr, "%s: these words are not expected:%s; see --help\n", name.c_str(),
                 words.c_str());
    return 2;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", name.c_str(), error.what());
    return 2;
  }
  try {
    const int code = body();
    if (code != 0) return code;
    hero::check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0,
                "cannot print: standard output is full or closed");
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 1;
  }
}

}  // namespace tutorial
