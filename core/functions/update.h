#pragma once
// UpdateBatch: the entry to elementwise optimizer steps.
#include <span>
#include <unordered_map>
#include <vector>

#include <hero/core/device/backend.h>

namespace hero::core {

/// The properties of a functor that UpdateBatch uses, without its type.
struct UpdateInfo {
  UpdateOp op;
  const char* name;
  int states;
  bool takes_norms;
};

/// The dtype of the states of a parameter: its own, but float32 for float16 and bfloat16, in which
/// a running mean of squares would stop moving.
constexpr DType state_dtype(DType param) { return is_half(param) ? kFloat32 : param; }

/// Optimizer steps of many parameters, collected and then run together: all that have functor,
/// coefficients, dtype and device in common are one call of the backend.
class UpdateBatch {
 public:
  /// Adds one step over all elements of a parameter, in one pass: run() changes `param` and
  /// `states` in place, which count as written from now on; their memory must stay until then.
  /// param and grad share a floating dtype, states have state_dtype() of it; all have one shape and
  /// device, and states are contiguous. Parameters of a batch do not overlap. float16 and bfloat16
  /// are computed in float32 and rounded once. Slices of the same elements of each give the same
  /// bits as the whole. `norms`, for functors that take them only: float64 [2] on the same device.
  /// `low`, for functors without norms and float32 parameters: a float16 or bfloat16 array of the
  /// parameter's shape, contiguous, which is set to the rounded parameter; the gradient has its
  /// dtype then. It is defined in core/functions/update_step.h, which only the files of optimizers
  /// include, with the functors and their arithmetic.
  template <class F>
  void add(const typename F::template Step<double>& step, const Array& param, const Array& grad,
           std::span<const Array* const> states, const Array* norms = nullptr,
           const Array* low = nullptr);
  /// Runs all steps; the batch is empty afterwards, also after an error.
  void run();

 private:
  // The steps of one call.
  struct Kind {
    UpdateOp op = {};
    DType dtype = kFloat32;
    Device device;
    std::vector<double> coefficients;
    std::vector<UpdateItem> items;
  };
  // An array with gaps, and the dense copy in its place.
  struct Copied {
    Array from, dense;
    bool back;  // true: a parameter, whose stepped copy is copied back
  };

  void add(const UpdateInfo& info, std::span<const double> coefficients, const Array& param,
           const Array& grad, std::span<const Array* const> states, const Array* norms,
           const Array* low);
  std::byte* dense_bytes(const Array& x, bool back);
  Kind& kind_of(UpdateOp op, std::span<const double> coefficients, const Array& param);
  static bool is_kind(const Kind& kind, UpdateOp op, std::span<const double> coefficients,
                      const Array& param);
  void run_all();
  void clear();

  // The first used_ are in use; the others keep their memory for the next steps.
  std::vector<Kind> kinds_;
  size_t used_ = 0;
  std::unordered_multimap<size_t, size_t> places_;  // of those, by a hash; looked up only
  std::vector<Copied> copied_;
};

}  // namespace hero::core
