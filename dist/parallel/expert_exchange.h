#pragma once
// ExpertExchange: takes rows to the ranks that have their experts and their results back.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/moe.h>

namespace hero::dist {

/// Rows of the ranks of a group: x [S, D], of which the first send[0] go to rank 0, the next
/// send[1] to rank 1 and so on, becomes the rows [R, D] that come from rank 0, 1, ..., recv[r] from
/// rank r. Recorded: gradients go back the way that rows came. A collective, and so is its
/// backward.
Tensor exchange_rows(const Communicator& comm, const Tensor& x, const std::vector<int64_t>& send,
                     const std::vector<int64_t>& recv);

/// The experts of one layer over the ranks of `comm`, an even number of them each, in their order.
class ExpertExchange : public nn::TokenDispatcher {
 public:
  ExpertExchange(Communicator comm, Communicator loads_over)
      : comm_(std::move(comm)), loads_over_(std::move(loads_over)) {}

  Tensor run(const Tensor& rows, const std::vector<int64_t>& counts,
             const Experts& experts) override;
  std::vector<int64_t> add_up(const std::vector<int64_t>& counts) override;

 private:
  Communicator comm_, loads_over_;
};

}  // namespace hero::dist
