#include <bit>
#include <cstring>
#include <optional>

#include <hero/core/io/crc32c.h>
#include <hero/nn/training/event_file.h>

namespace hero::nn {
namespace {

constexpr size_t kHeadBytes = 12;  // length and its checksum
constexpr size_t kTailBytes = 4;

// Numbers of fields and how their values are laid out, in protobuf's one byte.
enum Field : uint8_t {
  kWallTime = 1 << 3 | 1,     // double
  kStep = 2 << 3 | 0,         // varint
  kFileVersion = 3 << 3 | 2,  // bytes
  kSummary = 5 << 3 | 2,
  kSessionLog = 7 << 3 | 2,
  kSummaryValue = 1 << 3 | 2,
  kTag = 1 << 3 | 2,
  kSimpleValue = 2 << 3 | 5,  // float
  kStatus = 1 << 3 | 0,
};
constexpr uint64_t kStatusStart = 1;

// A checksum over data that holds checksums is weak; hence the mask (TensorFlow, record_writer).
uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(core::crc32c(bytes), 15) + 0xa282ead8u;
}

template <class T>
void put_number(std::string& out, T value) {  // little endian, as this machine
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

template <class T>
T get_number(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_bytes(std::string& out, Field field, std::string_view bytes) {
  out += static_cast<char>(field);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time) {
  std::string out(1, static_cast<char>(kWallTime));
  put_number(out, wall_time);
  return out;
}

std::string event(double wall_time, int64_t step) {
  std::string out = event(wall_time);
  out += static_cast<char>(kStep);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}

std::optional<uint64_t> get_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The step of an event as this library and TensorBoard's own writers lay it out: after the time.
int64_t step_of(std::string_view payload) {
  if (payload.size() < 10 || static_cast<uint8_t>(payload[0]) != kWallTime) return 0;
  payload.remove_prefix(9);
  if (static_cast<uint8_t>(payload[0]) != kStep) return 0;
  payload.remove_prefix(1);
  return static_cast<int64_t>(get_varint(payload).value_or(0));
}

}  // namespace

std::string event_record(std::string_view payload) {
  std::string out;
  put_number(out, static_cast<uint64_t>(payload.size()));
  put_number(out, masked_crc(out));
  out += payload;
  put_number(out, masked_crc(payload));
  return out;
}

std::string event_file_version(double wall_time) {
  std::string out = event(wall_time);
  put_bytes(out, kFileVersion, "brain.Event:2");
  return event_record(out);
}

std::string event_scalars(double wall_time, int64_t step, std::span<const Metric> metrics) {
  std::string summary;
  for (const Metric& metric : metrics) {
    std::string value;
    put_bytes(value, kTag, metric.name);
    value += static_cast<char>(kSimpleValue);
    put_number(value, static_cast<float>(metric.value));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string out = event(wall_time, step);
  put_bytes(out, kSummary, summary);
  return event_record(out);
}

std::string event_restart(double wall_time, int64_t step) {
  std::string log(1, static_cast<char>(kStatus));
  put_varint(log, kStatusStart);
  std::string out = event(wall_time, step);
  put_bytes(out, kSessionLog, log);
  return event_record(out);
}

std::vector<EventRecord> read_event_records(std::string_view bytes) {
  std::vector<EventRecord> records;
  while (bytes.size() >= kHeadBytes + kTailBytes) {
    const auto length = get_number<uint64_t>(bytes);
    if (get_number<uint32_t>(bytes.substr(8)) != masked_crc(bytes.substr(0, 8))) break;
    if (length > bytes.size() - kHeadBytes - kTailBytes) break;
    const std::string_view payload = bytes.substr(kHeadBytes, length);
    if (get_number<uint32_t>(bytes.substr(kHeadBytes + length)) != masked_crc(payload)) break;
    const size_t whole = kHeadBytes + length + kTailBytes;
    records.push_back({bytes.substr(0, whole), step_of(payload)});
    bytes.remove_prefix(whole);
  }
  return records;
}

}  // namespace hero::nn
