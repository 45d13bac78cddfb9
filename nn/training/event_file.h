#pragma once
// TensorBoard's event files, written and read by hand: records of
//   length u64 | masked CRC-32C of the length | payload | masked CRC-32C of the payload
// whose payload is an Event of protobuf: wall_time = 1, step = 2, file_version = 3, summary = 5,
// session_log = 7.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/nn/training/metric.h>

namespace hero::nn {

/// The framed record of a payload.
std::string event_record(std::string_view payload);
/// The record that begins every file.
std::string event_file_version(double wall_time);
/// One record with a scalar (float32) for each metric.
std::string event_scalars(double wall_time, int64_t step, std::span<const Metric> metrics);
/// The record by which a run says that it restarted at `step`: readers discard what they had from
/// there on.
std::string event_restart(double wall_time, int64_t step);

/// A record in the bytes of a file, including its frame, and the step of its event.
struct EventRecord {
  std::string_view bytes;
  int64_t step = 0;
};
/// The records up to the first that is truncated or damaged, as views into `bytes`.
std::vector<EventRecord> read_event_records(std::string_view bytes);

}  // namespace hero::nn
