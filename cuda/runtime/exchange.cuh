#pragma once
#include <hero/core/exchange.h>

namespace hero::cuda {

/// The exchange of device `index`.
core::Exchange& exchange_of(int index);

}  // namespace hero::cuda
