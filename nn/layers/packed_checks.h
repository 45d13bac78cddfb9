#pragma once
// The check of packed sequences, whose fields a program can set as it likes.
#include <hero/nn/packed_sequence.h>

namespace hero::nn {

/// Throws an Error that begins with `what` unless the fields of `packed` fit together as
/// pack_padded_sequence() makes them, with `data` in the place of packed.data. Functions that take
/// a packed sequence call it first.
void check_packed(const char* what, const PackedSequence& packed, const Tensor& data);

}  // namespace hero::nn
