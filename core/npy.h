#pragma once
// NumPy's .npy files: versions 1, 2 and 3.
#include <cstddef>
#include <span>
#include <string>

#include <hero/core/array.h>

namespace hero::core {

/// Reads a .npy file into a new cpu array, which is row-major even if the file is in Fortran order.
/// Element types: bool, uint8, int32, int64, float16, float32, float64; int8, int16 and uint16 are
/// read as int32, and uint32 and uint64 as int64, of which a value above 2^63 - 1 is an Error.
/// Files of either byte order are read.
Array load_npy(const std::string& path);

/// Reads an array from the bytes of a .npy file.
Array parse_npy(std::span<const std::byte> bytes);

/// Writes version 1.0, row-major; the file appears whole or not at all. NumPy has no bfloat16, so
/// convert it first.
void save_npy(const std::string& path, const Array& array);

}  // namespace hero::core
