#pragma once
// Chapter 8a: what the program was told.
#include <cstdint>
#include <optional>
#include <string>

#include "support/options/command.h"

namespace tutorial {

/// What is absent is the program's own choice.
struct GPTOptions {
  bool quick = false, resume = false;
  std::optional<int64_t> steps, layers, width, block, batch, vocab, seed, top_k, length;
  std::optional<double> lr, temperature;
  hero::Device device = hero::kCpu;
  std::string run, sample = "In the beginning", out = "figures";
};

/// Makes the options known to a command.
void add_options(Command& command, GPTOptions& options);

}  // namespace tutorial
