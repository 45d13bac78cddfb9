#pragma once
// Checks that all ranks have the same Config; internal to dist.
#include <hero/dist/communicator.h>
#include <hero/dist/config.h>

namespace hero::dist {

/// Throws an Error on every rank, with the first line that differs, unless all ranks have the same
/// Config: with different batch sizes, learning rates or clipping they would silently train
/// different models. The folders for the ranks' files may differ, and so may what rank 0 prints and
/// reports. A collective.
void check_same_config(const Config& config, const Communicator& world);

}  // namespace hero::dist
