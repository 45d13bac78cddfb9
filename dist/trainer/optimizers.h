#pragma once
// Makes the optimizers and learning-rate schedules that a Config names; internal to dist.
#include <memory>
#include <string>
#include <vector>

#include <hero/core/swap_file.h>
#include <hero/dist/config.h>
#include <hero/dist/data_parallel.h>
#include <hero/optim/optimizer.h>
#include <hero/optim/schedules.h>

namespace hero::dist {

/// Makes an optimizer. For 16-bit parameters it calls use_master_weights(); with a file,
/// page_states(). Throws an Error for a type that is unknown or cannot be paged, and for an option
/// out of range. `strategy` holds the parameters.
std::unique_ptr<optim::Optimizer> make_optimizer(const Config::Method& method,
                                                 const std::vector<Tensor>& parameters,
                                                 const DataParallel& strategy,
                                                 core::SwapFile* file = nullptr);
/// Why the config's optimizer does not work with the rest of the config, and which one does; "" if
/// it works.
std::string pairing_problem(const Config& config);
/// Whether matrix products are cast to float16 in forward while parameters stay float32, as for
/// "fp16" with 1-bit optimizers. Otherwise parameters have the config's dtype.
bool casts_products(const Config& config);
/// DeepSpeed's learning rate of each step (deepspeed/runtime/lr_schedules.py, 0.16): the first step
/// has the warm-up's lowest rate, and step number t >= 1 that of t - 1 steps taken.
optim::Curve make_curve(const Config::Method& method);

}  // namespace hero::dist
