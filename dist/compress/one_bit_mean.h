#pragma once
// OneBitMean: the mean over the ranks of a long array, sent as one bit per element in each
// direction, with error feedback at the sender and at the receiver; internal to dist.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// The compressed mean of 1-bit Adam (Tang et al., arXiv 2102.02888, algorithm 1), bucket by
/// bucket. On rank r, with its values x and its error e, c = x + e is encoded in one row of bits
/// for each rank, and e becomes c minus the decoded rows. Rank j adds up the decoded rows j of all
/// ranks in the order of ranks, divides the sum, adds its server error E, and sends the result to
/// all ranks, again encoded in bits; E becomes what this encoding lost, and x the decoded result.
/// Every rank ends with the same x, bitwise equal to that of one process which does the same with N
/// arrays.
///
/// A bucket of n elements sends 2 (N - 1) encoded_bytes(sign1, row) bytes, row =
/// row_elements(sign1, n, N): 1 / 32 of a float32 all_reduce, and 8 bytes a row.
class OneBitMean {
 public:
  /// For arrays of `elements` elements on `device`, with bucket_elements (a multiple of 32) in each
  /// bucket; the sum over the ranks is divided by `divide_by`.
  OneBitMean(Communicator comm, int64_t elements, Device device, int64_t bucket_elements,
             double divide_by);

  /// Elements [begin, end) of x.
  struct Range {
    int64_t begin, end;
  };
  /// Replaces x, float32 [elements] and contiguous, by the mean. Returns the ranges that are NaN
  /// afterwards because a rank's x was not finite there; they are the same on every rank. A
  /// collective.
  std::vector<Range> mean(const Array& x);
  /// Bytes that this rank sends in one mean().
  int64_t bytes() const;

  /// \name This rank's errors: "worker_error" [elements], "server_error" of its rows
  /// \{
  optim::StateDict errors() const;
  /// Throws an Error that begins with `what`, and changes nothing, if the errors do not fit.
  void set_errors(const char* what, const optim::StateDict& dict);
  void reset();
  /// \}

 private:
  struct Bucket {
    int64_t begin, count, row;
    int64_t server;  // index in server_error_ of the first error of this rank's row
    int64_t own;     // elements of this rank's row
  };

  Communicator comm_;
  double divide_by_;
  std::vector<Bucket> buckets_;
  Array worker_error_, server_error_;
};

}  // namespace hero::dist
