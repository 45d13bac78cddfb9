#pragma once
// OneBitLink: what the optimizers that send bits have in common: a DDP that may leave gradients to
// them, one array that all parameters' momenta are slices of, and its mean in bits; for dist's own
// files.
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/compress/one_bit_mean.h>
#include <hero/dist/data_parallel.h>

namespace hero::dist {

class OneBitLink {
 public:
  /// An Error, which begins with `what`, where the strategy is not DDP, or a parameter is none of
  /// its module, float64, or on another device than the first.
  OneBitLink(const char* what, std::shared_ptr<ShardedModule> sharded,
             const std::vector<Tensor>& parameters, int64_t bucket_elements);
  ~OneBitLink();
  OneBitLink(const OneBitLink&) = delete;
  OneBitLink& operator=(const OneBitLink&) = delete;

  const Communicator& comm() const;
  /// Whether backward leaves this rank's own gradients.
  void keep_gradients_local(bool on);
  /// An Error where what bits stand for does not fit these parameters: the module was converted to
  /// float64, or moved since the optimizer was made.
  void check_fits(const std::vector<Tensor>& parameters) const;
  /// An Error on every rank where a gradient of these parameters is not finite on one. A
  /// collective.
  void check_finite(const std::vector<Tensor>& parameters) const;
  /// The same of this rank's gradients alone, and its own Error; no collective.
  void check_finite_here(const std::vector<Tensor>& parameters) const;
  /// Whether all ranks say true. A collective.
  bool all_say(bool mine) const;

  /// Float32 of all parameters' elements, without values, and the part of such an array that is one
  /// parameter's, in its shape.
  Array flat() const;
  Array part_of(const Array& flat, size_t parameter) const;
  /// The mean in bits. An Error on every rank names what is not finite in it, when it is too late.
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
  std::vector<int64_t> begins_;  // one more than parameters
  Device device_;
  int64_t bucket_elements_;
  std::unique_ptr<OneBitMean> bits_;
};

}  // namespace hero::dist
