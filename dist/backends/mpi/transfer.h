#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hero/dist/backends/agreement.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/backends/mpi/transport.h>

namespace hero::dist {

/// The transfer of one call's bytes.
class MpiTransfer {
 public:
  virtual ~MpiTransfer() = default;
  /// Begins all messages that can begin by now. Returns true when the outputs are written and the
  /// inputs are read.
  virtual bool advance() = 0;
};

/// A call on which all parties agree. `parties` are world ranks.
struct Agreed {
  Call call;
  std::vector<int> parties;
  int me = 0;
  Agreement agreement;

  /// Party i receives the bytes of this call by this tag and by the one after it.
  int tag(int party) const;
  /// The input of party i, if it was sent with the agreement; otherwise empty.
  std::string_view contribution(int party) const;
};

/// The bytes that party `me` sends with the agreement (see Agreement): its tag and, if the inputs
/// of all parties together are a few kilobytes, its input. They have the same length for all
/// parties.
std::string carried_by(const Call& call, int me, int parties, int tag);

/// Sets how many messages later calls without reductions have under way at a time in each
/// direction. The default of 64 keeps a network busy and fits the queues of any MPI, for any number
/// of ranks. A test may set another number, at least 1, on any rank.
void set_move_window(int messages);

/// Begins to move the bytes of a call, directly from its inputs to its outputs. Inputs that were
/// sent with the agreement are not sent again. Reductions exchange parts in segments and add them
/// up in the call's order, with the bits of ordered_reduce(); see Pieces. Reductions in
/// Order::native are made by the MPI library, on the communicator of `group`.
std::unique_ptr<MpiTransfer> begin_transfer(Transport& transport, uint64_t group, Agreed agreed);

}  // namespace hero::dist
