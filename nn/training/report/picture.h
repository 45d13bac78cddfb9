#pragma once
// Pictures inside a page: PNG (RFC 2083, W3C REC-png-20031110) as a data URL (RFC 2397).
#include <cstdint>
#include <string>
#include <vector>

namespace hero::nn {

/// Rows from the top, pixels from the left, of each pixel its one or three channels.
struct ReportPicture {
  int64_t width = 0, height = 0, channels = 1;
  std::vector<uint8_t> values;
};

/// A PNG file.
std::string png_of(const ReportPicture& picture);
/// "data:image/png;base64,...".
std::string data_url(const std::string& png);

}  // namespace hero::nn
