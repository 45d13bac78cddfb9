#pragma once
// The lines of metrics.jsonl, read again; internal to MetricsWriter.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hero::nn {

struct KeptLines {
  std::string text;
  size_t torn_bytes = 0;  ///< of a last line that was not written whole
};

/// What a run that goes on from step `last` keeps of its lines. The last line may be torn: the disk
/// was full, or the process was killed as it wrote. Any other that is no line of metrics was not
/// written by MetricsWriter and is not its to throw away: an Error with the line's number.
KeptLines kept_lines(std::string_view text, int64_t last, const std::string& path);

}  // namespace hero::nn
