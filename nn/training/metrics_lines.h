#pragma once
// The lines of metrics.jsonl, read again; internal to MetricsWriter.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hero::nn {

struct KeptLines {
  std::string text;
  size_t torn_bytes = 0;  ///< bytes of a last line that is incomplete
};

/// The lines that a run keeps when it resumes from step `last`. The last line may be torn, because
/// the disk was full or the process was killed while it wrote. If any other line is not one of
/// metrics, something else has written it, so it is not dropped: throws an Error with the line's
/// number.
KeptLines kept_lines(std::string_view text, int64_t last, const std::string& path);

}  // namespace hero::nn
