#pragma once
// safetensors files in the folders of checkpoints, which are new and whose files get checksums.
#include <span>
#include <string>

#include <hero/core/io/encoding.h>
#include <hero/core/io/file.h>

namespace hero::core {

/// save_safetensors(), with options of the file that it writes.
void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata, const Encoding& encoding, OutputOptions options);

}  // namespace hero::core
