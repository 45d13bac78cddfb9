#pragma once
// Exercise 12: what an answer is given, and the class that it defines.
#include <list>
#include <memory>
#include <vector>

#include "exercises/support/answer.h"

#include <hero/dist/dist.h>
#include <hero/nn/nn.h>

namespace exercise {

/// A network whose gradients are averaged over the ranks while backward computes.
class DataParallel {
 public:
  virtual ~DataParallel() = default;
  /// Called after backward(): returns when the gradient of every parameter is the mean over the
  /// ranks.
  virtual void finish() = 0;
};

/// The answer: puts `net` under its class.
std::unique_ptr<DataParallel> data_parallel(hero::nn::Module& net,
                                            const hero::dist::Communicator& world,
                                            int64_t bucket_bytes);

/// The gradients of these parameters, one behind the other in one new array.
hero::Array pack(const std::vector<hero::Tensor>& parameters);
/// The other way round: writes the pieces of `packed` into the gradients of these parameters.
void unpack(const hero::Array& packed, const std::vector<hero::Tensor>& parameters);

}  // namespace exercise
