#include <hero/core/device.h>
#include <hero/core/device/planned_device.h>
#include <hero/core/error.h>
#include <hero/core/io/name_list.h>

namespace hero {

std::string to_string(const Device& device) {
  if (device.type == DeviceType::cpu) return "cpu";
  if (device == core::kPlannedHost) return "meta (the host)";
  if (device.type == DeviceType::meta) return "meta";
  return "cuda:" + std::to_string(device.index);
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return kCpu;
  if (text == "meta") return kMeta;
  if (text == "cuda") return {DeviceType::cuda, 0};
  const bool indexed = text.starts_with("cuda:") && text.size() > 5 && text.size() < 8 &&
                       text.find_first_not_of("0123456789", 5) == std::string::npos;
  check(indexed, "device: unknown name: '", core::cut_text(text),
        "'; use cpu, meta, cuda or cuda:N");
  return {DeviceType::cuda, static_cast<int8_t>(std::stoi(text.substr(5)))};
}

}  // namespace hero
