#include <algorithm>
#include <vector>

#include <hero/core/io/crc32c.h>
#include <hero/core/io/file.h>
#include <hero/nn/training/file_digest.h>

namespace hero::nn {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

}  // namespace

FileDigest digest_file(const std::string& path) {
  const InputFile file(path);
  FileDigest digest{file.size(), 0};
  std::vector<std::byte> chunk(std::min(file.size(), kChunkBytes));
  for (uint64_t at = 0; at < file.size(); at += kChunkBytes) {
    const std::span part = std::span(chunk).first(std::min(kChunkBytes, file.size() - at));
    file.read(at, part);
    digest.crc32c = core::crc32c(part, digest.crc32c);
  }
  return digest;
}

}  // namespace hero::nn
