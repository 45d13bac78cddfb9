#pragma once
// The check of packed sequences, whose fields a program can set as it likes.
#include <hero/nn/packed_sequence.h>

namespace hero::nn {

/// Throws an Error of `what` unless the fields of `packed` fit together as pack_padded_sequence()
/// makes them, with `data` in the place of packed.data. What reads packed sequences calls it once,
/// before it reads any of them.
void check_packed(const char* what, const PackedSequence& packed, const Tensor& data);

}  // namespace hero::nn
