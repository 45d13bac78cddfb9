#pragma once
// The parts of reading a Config; for dist's own files.
#include <hero/dist/config.h>
#include <hero/dist/trainer/json_keys.h>

namespace hero::dist {

/// "optimizer" and "scheduler".
Config::Method read_optimizer(JSONSection section);
Config::Method read_scheduler(JSONSection section);
/// "zero_optimization", an object or true (stage 1) or false.
Config::Zero read_zero(JSONSection& root);
/// Features of DeepSpeed that a Config does not have: switched off, or as they are by themselves.
void refuse_unsupported(JSONSection& root, const Config& config);

}  // namespace hero::dist
