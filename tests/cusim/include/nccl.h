#pragma once
// The part of NCCL's interface that the nccl engine uses, over tests/cusim: communicators of
// threads whose calls run in the streams of cuda_runtime.h, deferred ones (cusim::set_deferred).
#include <cstddef>
#include <string>
#include <vector>

#include <cuda_runtime.h>

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
enum ncclDataType_t {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { -1 }

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                           ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

namespace cusim {

/// The next call of `function` (its name without "nccl") by rank `rank` fails with this. For
/// "Async": calls under way do, as ncclCommGetAsyncError says. For "Hang" and "CommFinalize": the
/// rank's next group of calls, or its next end of a communicator, does not come back before that is
/// aborted.
void break_nccl(const char* function, int rank, ncclResult_t result);
/// While true, calls of this kind ("reduce_scatter") do not begin, of all ranks or of one, and the
/// streams that have come to one stand still, as do those of the other ranks. A host that waits for
/// one ends the program, or waits (wait_patiently). Of threads "CommInitRankConfig" and, of one
/// rank, "CommSplit" do not come back. Ranks that are processes each hold their own.
void hold_nccl(const std::string& kind, bool hold, int rank = -1);
/// While true, a host that waits for a call that does not begin waits, as over the real NCCL, until
/// it begins or its communicator is aborted; and an abort waits for all that its device was asked
/// for, as it gives memory back. Else the first such host ends the program. Ranks that are
/// processes wait without it, too, for HERO_TIMEOUT.
void wait_patiently(bool wait);
/// While true, a rank's first group of calls of a communicator comes back when all its ranks have
/// come to theirs, or when it is aborted: as where NCCL connects them only then. Ranks are threads.
void connect_nccl_late(bool late);
/// What has happened since the last time: calls that make and end communicators, as "CommSplit:
/// rank 1 of 4, color 0, key 2", and collectives that are done.
std::vector<std::string> take_nccl_log();
/// What ranks have sent by ncclSend from the rank `from` of a communicator to its rank `to`.
struct NcclSent {
  int64_t messages = 0, bytes = 0;
};
NcclSent nccl_sent(int from, int to);
/// Communicators that were made and not ended; those of them that were ended by an abort.
int open_communicators();
int aborted_communicators();

}  // namespace cusim
