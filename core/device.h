#pragma once
// This header says which devices there are.
#include <cstdint>
#include <string>

namespace hero {

enum class DeviceType : uint8_t { cpu, meta, cuda };

/// Where an array's bytes lie. `meta` has shapes and no bytes; `cuda` needs the CUDA backend.
struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{DeviceType::cpu, 0};
inline constexpr Device kMeta{DeviceType::meta, 0};
inline constexpr int kDeviceTypeCount = 3;

/// "cpu", "meta", "cuda:0".
std::string to_string(const Device& device);

/// The reverse of to_string; throws on an unknown name.
Device parse_device(const std::string& text);

}  // namespace hero
