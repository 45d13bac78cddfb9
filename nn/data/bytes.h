#pragma once
// Whole files as bytes, gzip undone; and where data sets are looked for.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hero::nn::data {

/// The file's bytes; those of a file whose name ends in .gz are decompressed. An Error that names
/// the file where it is missing, truncated, no gzip file, or unpacks to more than 1 GiB.
std::vector<std::byte> read_bytes(const std::string& path);

/// The file's bytes as text.
std::string read_text(const std::string& path);

/// What a .gz file may unpack to: 1 GiB. A file of 2 MB can claim 2 GB, and does so on purpose.
inline constexpr uint64_t kMaxUnpackedBytes = uint64_t{1} << 30;

/// Decompresses gzip members, one or several, checking length and CRC-32 of each. `label` names
/// the source in errors. More than `limit` bytes are an Error, found before they are all made.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& label,
                              uint64_t limit = kMaxUnpackedBytes);

/// True for an existing regular file.
bool is_file(const std::string& path);

/// The folder that the environment variable HERO_DATA names; "" where it is not set.
std::string data_folder();

}  // namespace hero::nn::data
