#pragma once
// IDX files, the format of MNIST: two zero bytes, an element type, the sizes, then the elements,
// all big endian.
#include <cstddef>
#include <span>
#include <string>

#include <hero/core/array.h>

namespace hero::nn::data {

/// Reads an IDX file, plain or .gz, into a new array. Element types: uint8, int32, float32,
/// float64; int8 and int16 are read as int32.
Array load_idx(const std::string& path);

/// Reads the same from the bytes of a plain file; `label` names the source in errors.
Array parse_idx(std::span<const std::byte> bytes, const std::string& label = "bytes in memory");

/// Writes a plain IDX file of uint8, int32, float32 or float64.
void save_idx(const std::string& path, const Array& array);

}  // namespace hero::nn::data
