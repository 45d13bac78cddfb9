#pragma once
// Whole files as bytes, gzip undone; and where data sets are looked for.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hero::nn::data {

/// The file's bytes; those of a file whose name ends in .gz are decompressed. An Error that names
/// the file where it is missing, truncated or no gzip file.
std::vector<std::byte> read_bytes(const std::string& path);

/// The file's bytes as text.
std::string read_text(const std::string& path);

/// Decompresses gzip members, one or several, checking length and CRC-32 of each. `label` names
/// the source in errors.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& label);

/// True for an existing regular file.
bool is_file(const std::string& path);

/// The folder that the environment variable HERO_DATA names; "" where it is not set.
std::string data_folder();

}  // namespace hero::nn::data
