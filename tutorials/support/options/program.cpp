#include "support/options/program.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "support/options/command.h"
#include "support/options/device.h"
#include "support/options/number.h"
#include "support/options/page.h"
#include "support/options/trace.h"
#include <CLI/CLI.hpp>

namespace tutorial {

namespace {

void add_descent(CLI::App& app, const Program& program, Options& options) {
  app.add_option("--lr", options.lr, "learning rate")
      ->check(number_that([](double v) { return v > 0.0; }, "a number above 0"));
  if (program.momentum) {
    app.add_option("--momentum", options.momentum, "share of the last step that is kept")
        ->check(number_that([](double v) { return v >= 0.0 && v < 1.0; }, "a number in [0, 1)"));
  }
  app.add_option("--steps", options.steps, "most steps to take")
      ->check(number_that([](double v) { return v >= 1.0 && v <= 1e7 && v == std::floor(v); },
                          "a whole number from 1 to 10000000"));
}

void add_options(Command& command, const Program& program, Options& options) {
  CLI::App& app = command.app();
  if (program.descends) add_descent(app, program, options);
  app.add_option("--start", options.start, program.descends ? "where to start" : "inputs")
      ->expected(program.coordinates)
      ->check(number_that([](double) { return true; }, "a number"));
  if (!program.methods.empty()) {
    app.add_option("--method", options.method, "only this one")
        ->check(CLI::IsMember(program.methods));
  }
  command.device(options.device).out(options.out);
}

}  // namespace

int run(int argc, char** argv, const Program& program,
        const std::function<void(const Options&)>& body) {
  Options options;
  Command command(program.title);
  add_options(command, program, options);
  TraceOptions trace;
  std::string report;
  if (program.descends) {
    add_trace(command, trace);
    add_report(command, report);
  }
  return command.run(argc, argv, [&] {
    const OnDevice device(options.device);
    command.make_out();
    const auto run_body = [&] {
      body(options);
      return 0;
    };
    return traced(trace, options.device, [&] { return reported(report, program.title, run_body); });
  });
}

std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0.0 ? "-inf" : "inf";
  char text[64];
  const auto write = [&](std::chars_format format) {
    return std::string(text, std::to_chars(text, text + sizeof text, value, format).ptr);
  };
  const std::string scientific = write(std::chars_format::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (value != 0.0 && (exponent < -4 || exponent >= 16)) return scientific;
  const std::string fixed = write(std::chars_format::fixed);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

}  // namespace tutorial
