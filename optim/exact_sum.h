#pragma once
// Exact sums of what several owners hold parts of; core/exact_sum.h says what they are.
#include <span>

#include <hero/autograd/partition.h>
#include <hero/core/exact_sum.h>

namespace hero::optim {

using core::ExactSum;

/// Each sum becomes that of all owners' sums; one collective call.
void add_up(Owners& owners, std::span<ExactSum> sums);

}  // namespace hero::optim
