#pragma once
// OneBitLink: the common part of the 1-bit optimizers (one_bit.h): a DDP whose averaging of
// gradients they can turn off, and the compressed mean of one flat array that contains all
// parameters' momenta; internal to dist.
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/compress/one_bit_mean.h>
#include <hero/dist/data_parallel.h>

namespace hero::dist {

class OneBitLink {
 public:
  /// Throws an Error that begins with `what` if the strategy is not DDP, or if a parameter does not
  /// belong to its module, is float64, or is on another device than the first.
  OneBitLink(const char* what, std::shared_ptr<ShardedModule> sharded,
             const std::vector<Tensor>& parameters, int64_t bucket_elements);
  ~OneBitLink();
  OneBitLink(const OneBitLink&) = delete;
  OneBitLink& operator=(const OneBitLink&) = delete;

  const Communicator& comm() const;
  /// True: backward leaves each rank its own gradients, and averages nothing.
  void keep_gradients_local(bool on);
  /// Throws an Error if the module was converted to float64 or moved to another device since the
  /// optimizer was made.
  void check_fits(const std::vector<Tensor>& parameters) const;
  /// Throws an Error on every rank if a gradient of these parameters is not finite on any rank. A
  /// collective.
  void check_finite(const std::vector<Tensor>& parameters) const;
  /// Checks only this rank's gradients, and throws an Error only on this rank; not a collective.
  void check_finite_here(const std::vector<Tensor>& parameters) const;
  /// Whether `mine` is true on all ranks. A collective.
  bool all_say(bool mine) const;

  /// An uninitialised float32 array for the elements of all parameters, and the part of such an
  /// array that belongs to one parameter, in its shape.
  Array flat() const;
  Array part_of(const Array& flat, size_t parameter) const;
  /// Replaces `flat` by its compressed mean over the ranks. If the result is not finite, throws an
  /// Error on every rank that names the parameters; `flat` and the errors have then already
  /// changed.
  void mean(const Array& flat);
  OneBitMean& bits();

  /// \name Of bits(), once there is one
  /// \{
  optim::StateDict errors() const;
  void set_errors(const optim::StateDict& dict);
  void reset_errors();
  /// \}

 private:
  std::string names_between(int64_t begin, int64_t end) const;
  void check_found(int64_t found, int rank) const;
  void check_all_given(const std::vector<Tensor>& parameters) const;

  const char* what_;
  std::shared_ptr<ShardedModule> sharded_;
  std::vector<std::string> names_;
  std::vector<Shape> shapes_;
  std::vector<int64_t> begins_;  // the first element of each parameter in flat(), and the total
  Device device_;
  int64_t bucket_elements_;
  std::unique_ptr<OneBitMean> bits_;
};

}  // namespace hero::dist
