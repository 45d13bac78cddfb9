#pragma once
// Reading whole files as bytes, decompressed if they are .gz files, and where data sets are looked
// for.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hero::nn::data {

/// The bytes of a file; a file whose name ends in .gz is decompressed. Throws an Error that names
/// the file if it is missing or truncated, is not a gzip file, or decompresses to more than 1 GiB.
std::vector<std::byte> read_bytes(const std::string& path);

/// The same bytes as text.
std::string read_text(const std::string& path);

/// The largest size that a .gz file may decompress to, 1 GiB; a malicious file of 2 MB can
/// decompress to 2 GB.
inline constexpr uint64_t kMaxUnpackedBytes = uint64_t{1} << 30;

/// Decompresses one or several gzip members, and checks the length and CRC-32 of each. `label`
/// names the source in errors. Throws an Error as soon as there are more than `limit` bytes.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& label,
                              uint64_t limit = kMaxUnpackedBytes);

/// True for an existing regular file.
bool is_file(const std::string& path);

/// The folder that the environment variable HERO_DATA names; "" if it is not set.
std::string data_folder();

}  // namespace hero::nn::data
