#include "support/options/gpt_options.h"

namespace tutorial {

void add_options(Command& command, GPTOptions& options) {
  command.flag("--quick", options.quick, "characters and a tiny model: seconds")
      .count("--steps", options.steps, "steps of the whole run", 0)
      .number("--lr", options.lr, "highest learning rate")
      .count("--layers", options.layers, "blocks")
      .count("--width", options.width, "size of an embedding")
      .count("--block", options.block, "tokens of a sample")
      .count("--batch", options.batch, "samples of a step")
      .count("--vocab", options.vocab, "kinds of tokens; 0: characters", 0)
      .count("--seed", options.seed, "of initial values, batches and samples", 0)
      .text("--run", options.run, "folder for checkpoints and metrics; none: nothing is kept")
      .flag("--resume", options.resume, "resume from the newest checkpoint of --run")
      .text("--sample", options.sample, "the text that samples continue")
      .number("--temperature", options.temperature, "of one sample; absent: two are shown")
      .count("--top-k", options.top_k, "draw among so many of the likeliest tokens")
      .count("--length", options.length, "tokens of a sample")
      .out(options.out)
      .device(options.device);
}

}  // namespace tutorial
