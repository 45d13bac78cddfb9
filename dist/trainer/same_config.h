#pragma once
// Whether all ranks train as the same Config says; for dist's own files.
#include <hero/dist/communicator.h>
#include <hero/dist/config.h>

namespace hero::dist {

/// An Error on every rank, with the first line that differs, unless all ranks have the same Config:
/// with other batch sizes, rates or limits of the norm they would train different models without a
/// word. The folders for the ranks' files may differ, and so may what rank 0 prints and reports. A
/// collective.
void check_same_config(const Config& config, const Communicator& world);

}  // namespace hero::dist
