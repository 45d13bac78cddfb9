#pragma once
// How GGUF stores the elements of tensors: in blocks, whose numbers share scales.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <hero/core/dtype.h>

namespace hero::core::gguf {

/// Decodes so many blocks that lie one behind another into float32. In two steps where the format
/// says (scale * q) - min: both round, as in llama.cpp.
using DecodeBlocks = void (*)(const std::byte* blocks, int64_t count, float* out);

/// A type of tensors.
struct BlockType {
  uint32_t number = 0;            ///< as files write it
  const char* name = "";          ///< "Q4_K"
  int64_t elements = 1;           ///< in a block
  int64_t bytes = 0;              ///< of a block; 0: the type is known by its name only
  DecodeBlocks decode = nullptr;  ///< null for F64, which float32 does not hold, and for the former
};

/// The type of this number; null where there is none.
const BlockType* block_type(uint32_t number);
/// The type of this name; null where there is none.
const BlockType* block_type(std::string_view name);
/// The names of those that can be read, "F32, F16, ...".
std::string readable_types();

/// Decodes whole blocks of a type that can be read into elements of a floating dtype, on several
/// threads.
void decode(const BlockType& type, const std::byte* blocks, int64_t count, DType dtype,
            std::byte* out);

/// \name Quantising: Q8_0, Q4_0 and Q4_1
/// \{
/// Whether blocks of this type can be made.
bool can_encode(const BlockType& type);
/// Makes so many blocks of finite numbers. False where a scale is no finite float16; the blocks are
/// then not to be used.
bool encode(const BlockType& type, const float* in, int64_t count, std::byte* out);
/// \}

}  // namespace hero::core::gguf
