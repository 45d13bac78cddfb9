#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hero/dist/backends/agreement.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/backends/mpi/transport.h>

namespace hero::dist {

/// The bytes of one call, under way.
class MpiTransfer {
 public:
  virtual ~MpiTransfer() = default;
  /// Begins what can begin by now; true when the outputs are written and the inputs are read.
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
  /// What party i gives to the call, where that has come with the agreement; else empty.
  std::string_view contribution(int party) const;
};

/// What party `me` of so many tells the others while they agree: its tag and, where all parties'
/// contributions together are a few kilobytes, its own. Every party's are as long.
std::string carried_by(const Call& call, int me, int parties, int tag);

/// Messages that a call which only moves bytes has under way at once each way, of those that begin
/// later: 64, enough to keep a network busy and few enough for the queues of any MPI, whatever the
/// number of ranks. A test may set another number, from 1 on, on any rank.
void set_move_window(int messages);

/// Moves the bytes of a call from and to where they lie. Contributions that came with the agreement
/// are there already. Reductions otherwise exchange parts in segments and add them up in the call's
/// order, with the bits of ordered_reduce(); see Pieces. Those in Order::native are left to the
/// library, by the communicator of `group`.
std::unique_ptr<MpiTransfer> begin_transfer(Transport& transport, uint64_t group, Agreed agreed);

}  // namespace hero::dist
