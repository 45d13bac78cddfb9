#pragma once
// Exercise 7: what an answer is given, and the functions that it defines.
#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// \name Causal attention of one head: q, k and v have the shape [T, D], as has the result.
/// \{
hero::Tensor attention(const hero::Tensor& q, const hero::Tensor& k, const hero::Tensor& v);
/// The same with no more than `block` keys at a time.
hero::Tensor attention_in_blocks(const hero::Tensor& q, const hero::Tensor& k,
                                 const hero::Tensor& v, int64_t block);
/// \}

/// A table of true and false [queries, keys]: true where the key comes after the query. The first
/// query has position 0, the first key the position `first_key`.
hero::Tensor comes_after(int64_t queries, int64_t keys, int64_t first_key = 0);

}  // namespace exercise
