#pragma once
#include <memory>
#include <vector>

#include <hero/dist/engines/call.h>
#include <hero/dist/engines/mpi/transport.h>

namespace hero::dist {

/// The bytes of one call, under way.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Begins what can begin by now; true when the outputs are written and the inputs are read.
  virtual bool advance() = 0;
};

/// A call on which all parties agree. `parties` are world ranks; `tags[i]` and the one after it are
/// those by which party i receives the bytes of this call.
struct Agreed {
  Call call;
  std::vector<int> parties;
  std::vector<int> tags;
  int me = 0;
};

/// Moves the bytes of a call from and to where they lie. Reductions exchange parts in segments and
/// add them up in the call's order, with the bits of ordered_reduce(); what has come and is not
/// yet added up lies in at most 16 MiB, or 256 KiB for each other rank where that is more. Those in
/// Order::native are left to the library, by the communicator of `group`.
std::unique_ptr<Transfer> begin_transfer(Transport& transport, uint64_t group, Agreed agreed);

}  // namespace hero::dist
