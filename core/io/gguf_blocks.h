#pragma once
// The blocks in which GGUF files store the elements of tensors; the numbers of a block share
// scales.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <hero/core/dtype.h>

namespace hero::core::gguf {

/// Decodes `count` consecutive blocks into float32. For formats of the form (scale * q) - min, the
/// product and the difference are rounded separately, as in llama.cpp.
using DecodeBlocks = void (*)(const std::byte* blocks, int64_t count, float* out);

/// A type of blocks.
struct BlockType {
  uint32_t number = 0;            ///< the type's number in files
  const char* name = "";          ///< "Q4_K"
  int64_t elements = 1;           ///< elements of a block
  int64_t bytes = 0;              ///< bytes of a block; 0: only the type's name is known
  DecodeBlocks decode = nullptr;  ///< null for F64, which float32 cannot hold, and if `bytes` is 0
};

/// The type of this number; null if there is none.
const BlockType* block_type(uint32_t number);
/// The type of this name; null if there is none.
const BlockType* block_type(std::string_view name);
/// The names of the types that can be read, "F32, F16, ...".
std::string readable_types();

/// Decodes whole blocks of a type that can be read into elements of a floating dtype, on several
/// threads.
void decode(const BlockType& type, const std::byte* blocks, int64_t count, DType dtype,
            std::byte* out);

/// \name Quantising: Q8_0, Q4_0 and Q4_1
/// \{
/// Whether encode() can make blocks of this type.
bool can_encode(const BlockType& type);
/// Makes `count` blocks from finite numbers. Returns false if a scale is no finite float16; the
/// blocks are then invalid.
bool encode(const BlockType& type, const float* in, int64_t count, std::byte* out);
/// \}

}  // namespace hero::core::gguf
