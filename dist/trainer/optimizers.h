#pragma once
// Optimizers and learning rates that a Config names; for dist's own files.
#include <memory>
#include <string>
#include <vector>

#include <hero/core/swap_file.h>
#include <hero/dist/config.h>
#include <hero/dist/data_parallel.h>
#include <hero/optim/optimizer.h>
#include <hero/optim/schedules.h>

namespace hero::dist {

/// Of parameters of 16 bits it steps float32 copies: use_master_weights(). With a file the states
/// lie there: page_states(). An Error for a type that is not known or not paged, and where an
/// option is out of range. `strategy` holds the parameters.
std::unique_ptr<optim::Optimizer> make_optimizer(const Config::Method& method,
                                                 const std::vector<Tensor>& parameters,
                                                 const DataParallel& strategy,
                                                 core::SwapFile* file = nullptr);
/// Why the config's optimizer cannot step what the rest of it describes, and what can; "" where it
/// can.
std::string pairing_problem(const Config& config);
/// Whether products are cast to float16 in forward while parameters stay in float32: "fp16" of
/// optimizers in bits, which step nothing else. Otherwise parameters have the config's dtype.
bool casts_products(const Config& config);
/// DeepSpeed's rate of each step (deepspeed/runtime/lr_schedules.py, 0.16): the first step has the
/// warm-up's lowest rate, and step number t >= 1 that of t - 1 steps taken.
optim::Curve make_curve(const Config::Method& method);

}  // namespace hero::dist
