#include <optional>

#include <hero/core/error.h>
#include <hero/core/json/json.h>
#include <hero/nn/training/metrics_lines.h>

namespace hero::nn {
namespace {

// The step of a line; none where it is no line of metrics.
std::optional<int64_t> step_in(std::string_view line) {
  try {
    const core::JSON object = core::parse_json(line, "metrics", "a line");
    return core::json_integer<int64_t>(object["step"], "step");
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

KeptLines kept_lines(std::string_view text, int64_t last, const std::string& path) {
  KeptLines kept;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const bool is_last = end == text.npos || end + 1 == text.size();
    const std::string_view line = text.substr(0, end);
    const std::optional<int64_t> step = step_in(line);
    if (!step && is_last) {
      kept.torn_bytes = text.size();
      break;
    }
    check(step.has_value(), "metrics: ", path, ": line ", number,
          " is not a line of metrics; repair or remove it");
    if (*step <= last) {
      kept.text += line;
      kept.text += '\n';
    }
    text.remove_prefix(is_last ? text.size() : end + 1);
  }
  return kept;
}

}  // namespace hero::nn
