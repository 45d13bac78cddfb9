#pragma once
// The devices that exist.
#include <cstdint>
#include <string>

namespace hero {

/// The kinds of devices.
enum class DeviceType : uint8_t { cpu, meta, cuda };

/// Where the bytes of an array are. `meta` has only shapes and no bytes; `cuda` needs the CUDA
/// backend.
struct Device {
  DeviceType type = DeviceType::cpu;  ///< the kind of device
  int8_t index = 0;                   ///< the number of the device among those of its kind
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{DeviceType::cpu, 0};
inline constexpr Device kMeta{DeviceType::meta, 0};
inline constexpr int kDeviceTypeCount = 3;

/// "cpu", "meta", "cuda:0".
std::string to_string(const Device& device);

/// The reverse of to_string(). Throws an Error for an unknown name.
Device parse_device(const std::string& text);

}  // namespace hero
