#pragma once
// Reads the sections of a Config; internal to dist.
#include <hero/dist/config.h>
#include <hero/dist/trainer/json_keys.h>

namespace hero::dist {

/// "optimizer" and "scheduler".
Config::Method read_optimizer(JSONSection section);
Config::Method read_scheduler(JSONSection section);
/// "zero_optimization", an object or true (stage 1) or false.
Config::Zero read_zero(JSONSection& root);
/// Reports features of DeepSpeed that a Config does not have, unless they are switched off or have
/// their default.
void refuse_unsupported(JSONSection& root, const Config& config);

}  // namespace hero::dist
