#include <algorithm>
#include <cstddef>

#include <zlib.h>

#include <hero/core/error.h>
#include <hero/nn/training/report/picture.h>

namespace hero::nn {

namespace {

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((value >> shift) & 0xFF);
  return bytes;
}

const Bytef* zlib_bytes(const std::string& bytes) {
  return reinterpret_cast<const Bytef*>(bytes.data());
}

std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string covered = type + data;
  const uLong sum = crc32(0, zlib_bytes(covered), static_cast<uInt>(covered.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + covered +
         big_endian(static_cast<uint32_t>(sum));
}

std::string compressed(const std::string& data) {
  uLongf size = compressBound(static_cast<uLong>(data.size()));
  std::string bytes(size, '\0');
  const int status = compress(reinterpret_cast<Bytef*>(bytes.data()), &size, zlib_bytes(data),
                              static_cast<uLong>(data.size()));
  check(status == Z_OK, "report: zlib does not compress a picture: ", status);
  bytes.resize(size);
  return bytes;
}

}  // namespace

std::string png_of(const ReportPicture& picture) {
  std::string head = big_endian(static_cast<uint32_t>(picture.width)) +
                     big_endian(static_cast<uint32_t>(picture.height));
  head += '\x08';                                   // bits of a channel
  head += picture.channels == 1 ? '\x00' : '\x02';  // grey or colours
  head += std::string(3, '\0');                     // deflate, filters by row, not interlaced
  std::string rows;
  const auto row = static_cast<size_t>(picture.width * picture.channels);
  for (size_t at = 0; at < picture.values.size(); at += row) {
    rows += '\0';  // no filter
    for (size_t i = 0; i < row; ++i) rows += static_cast<char>(picture.values[at + i]);
  }
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", head) + png_chunk("IDAT", compressed(rows)) +
         png_chunk("IEND", "");
}

std::string data_url(const std::string& png) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = "data:image/png;base64,";
  for (size_t at = 0; at < png.size(); at += 3) {
    const size_t count = std::min<size_t>(3, png.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = (bits << 8) | (i < count ? static_cast<uint8_t>(png[at + i]) : 0u);
    }
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[(bits >> (18 - 6 * i)) & 63] : '=';
  }
  return text;
}

}  // namespace hero::nn
