#pragma once
// What a rank asks of NCCL for a call.
#include <string>

#include <hero/core/array.h>
#include <hero/core/exchange.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/backends/nccl/comm.h>

namespace hero::dist::nccl {

/// One rank's end of a group of GPUs.
struct End {
  Comm& comm;
  core::Exchange& exchange;  ///< of its GPU
  Device device;
  int rank = 0, size = 1;
};

/// Asks for a collective, in the communicator's stream, which is the current one. Reductions of
/// floating dtypes in Order::tree and Order::ranks are exchanged in segments and added up, with the
/// bits of ordered_reduce(), in two levels where Call::two_levels() says so; what has come and is
/// not added up lies in at most 64 MiB, or 16 bytes for each other rank. Order::native, and
/// integers and bools, which have one result in any order: NCCL's own. `staged`: of staging_of(),
/// or undefined, and then allocated here.
void ask_collective(const End& end, const Call& call, const std::string& where,
                    core::Array staged = {});
/// The memory in which ask_collective() puts what has come, allocated in the current stream;
/// undefined where it needs none.
core::Array staging_of(const End& end, const Call& call);

/// Asks for one end of a message to rank 1 of the communicator, or from rank 0.
void ask_message(const End& end, const Call& call, const std::string& where);

}  // namespace hero::dist::nccl
