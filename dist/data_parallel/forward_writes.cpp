#include <cstdio>
#include <utility>

#include <hero/core/io/crc32c.h>
#include <hero/dist/data_parallel/forward_writes.h>

namespace hero::dist {

void ForwardWrites::add(const std::string& name, const Tensor& tensor, uint32_t& seen) {
  const uint32_t version = version_of(tensor);
  if (version == std::exchange(seen, version)) return;
  if (++count_ <= 4) names_ += (names_.empty() ? "'" : ", '") + name + "'";
  if (tensor.device().type == DeviceType::meta) return;
  const Array here = tensor.array().to(kCpu).contiguous();
  hash_ = core::crc32c({here.bytes(), static_cast<size_t>(here.nbytes())}, hash_);
}

std::string ForwardWrites::text(const char* who, const char* strategy, bool shares) const {
  char values[16];
  (void)std::snprintf(values, sizeof(values), "%08x", hash_);
  return std::string(who) + " wrote to " + (shares && count_ > 1 ? "one of " : "") + names_ +
         (count_ > 4 ? " and " + std::to_string(count_ - 4) + " more" : "") + " under " + strategy +
         " (values " + values + "), which all ranks must do alike; else write between two steps";
}

}  // namespace hero::dist
