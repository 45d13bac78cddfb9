#pragma once
#include <memory>

#include <hero/dist/backends/backend.h>

namespace hero::dist::nccl {

// [note: agreed means asked]
// A collective first goes to NCCL, in the stream of its communicator, and then to the host's
// backend as a statement without bytes. When that is complete, all ranks have asked NCCL for this
// very call. wait() lets the rank's stream wait for the communicator's and returns, whether or not
// the statement is complete: the GPU goes from call to call without a word of the host. So it may
// wait for what never comes, and then a thread of the process (watchdog.h) aborts the communicator,
// which frees the streams. The rank hears of it, in the words of every backend, when it confirms
// the call: before its host waits for the GPU or reads what lies there
// (cuda/runtime/before_wait.cuh), before a call of another group, a message, or one of the host's
// arrays, and at its end, however that comes. Hence who knows that a call is agreed on knows that
// all that lies before it in the streams of its ranks comes, too: calls of one group are asked for
// in one order, and those of others were agreed on before. A call that all have asked for goes on
// whatever fails afterwards: another rank may wait for it on its GPU, and no word from the host
// reaches it there. So who gives up lets such calls end first. A message is stated when it begins,
// goes to NCCL when both ends have begun it, and is stated again; the host waits for that. A rank
// asks for all such messages before any wait() ends.
//
// [note: calls of ranks that share a GPU] Where two ranks of the world have the same GPU, a call of
// the driver may wait for it, and so for what another rank has asked for, whose other end the rank
// that makes the call has not asked for. So there collectives go as messages do: they are stated
// when they begin, with all memory that they need, go to NCCL when all ranks have begun them, those
// of a group one after the other, and are stated again. What the GPU was asked for then waits for
// no host but on its way to NCCL: who makes such a call asks first for all that it has begun
// ([note: calls for which the driver may wait] in cuda/runtime/free_gate.h), and makes groups when
// all collectives that it has begun are asked for. NCCL allocates memory itself where it joins
// ranks. It does so in a thread of its own, and outside the gate, since it waits for the other
// ranks there, too. Their hosts have agreed to join before, and each asks for what it has begun
// while it waits, so that the GPU comes to an end with all that it was asked for.

/// The backend of a rank that has a GPU (choose_gpu() says which), over one for the host,
/// which every rank of the host's world must wrap at the same time. Arrays of the host, and all
/// agreements between the ranks, go by `host`; those of the GPU by NCCL.
std::shared_ptr<Backend> make_backend(std::shared_ptr<Backend> host, int local_rank, int local_size,
                                      const Timeouts& timeouts);

}  // namespace hero::dist::nccl
