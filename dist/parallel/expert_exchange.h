#pragma once
// ExpertExchange: sends rows to the ranks that have their experts, and the results back.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/nn/moe.h>

namespace hero::dist {

/// Exchanges rows among the ranks of a group: of x [S, D] the first send[0] rows go to rank 0, the
/// next send[1] to rank 1, and so on. Returns the received rows [R, D], recv[r] from rank r, in the
/// order of ranks. It is recorded: gradients are exchanged in the opposite direction. A collective,
/// and so is its backward.
Tensor exchange_rows(const Communicator& comm, const Tensor& x, const std::vector<int64_t>& send,
                     const std::vector<int64_t>& recv);

/// The experts of one layer, divided evenly among the ranks of `comm`, in order.
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
