#pragma once
// OneBitMean: the mean over the ranks of a long array, each element in one bit each way, with error
// feedback on both sides; for dist's own files.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// The compressed mean of 1-bit Adam (Tang et al., arXiv 2102.02888, algorithm 1), by buckets: with
/// x of a bucket on rank r and its error e, c = x + e; rank r's bits are those of c in rows, one
/// for each rank, and e = c - what the bits say. Rank j adds up row j of all ranks in their order,
/// divides, adds its error E and sends bits of that to all; x becomes what those say. Every rank
/// ends with the same x, and one process that does the same with N arrays has its bits.
///
/// A bucket of n elements sends 2 (N - 1) encoded_bytes(sign1, row) bytes, row =
/// row_elements(sign1, n, N): 1 / 32 of a float32 all_reduce, and 8 bytes a row.
class OneBitMean {
 public:
  /// Of `elements` elements on `device`, so many in a bucket (a multiple of 32); the sum is divided
  /// by `divide_by`.
  OneBitMean(Communicator comm, int64_t elements, Device device, int64_t bucket_elements,
             double divide_by);

  /// Elements [begin, end) of x.
  struct Range {
    int64_t begin, end;
  };
  /// x, float32 [elements] and contiguous, becomes the mean. The ranges that are NaN now, since a
  /// rank had a number there that is not finite: the same on every rank. A collective.
  std::vector<Range> mean(const Array& x);
  /// Bytes that this rank sends in one mean().
  int64_t bytes() const;

  /// \name This rank's errors: "worker_error" [elements], "server_error" of its rows
  /// \{
  optim::StateDict errors() const;
  /// An Error, which begins with `what`, leaves them as they were.
  void set_errors(const char* what, const optim::StateDict& dict);
  void reset();
  /// \}

 private:
  struct Bucket {
    int64_t begin, count, row;
    int64_t server;  // where in server_error_ its row's error begins
    int64_t own;     // elements of this rank's row
  };

  Communicator comm_;
  double divide_by_;
  std::vector<Bucket> buckets_;
  Array worker_error_, server_error_;
};

}  // namespace hero::dist
