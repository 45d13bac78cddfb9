#pragma once
// Writing by indices, for functions that return a copy and for members that write in place.
#include <vector>

#include <hero/autograd/ops/detail/in_place.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/core/device/backend_arguments.h>
#include <hero/core/functions/overlap.h>

namespace hero::detail {

/// Where values are written: into a copy of x, which is recorded, or into the memory of x, where
/// nothing is recorded and x does not overlap itself. Wrong arguments are an Error before anything
/// is written.
enum class Into { copy, memory };

/// \name The functions of ops/index/index.h whose names they have; the result is the copy, or x.
/// \{
Tensor written(Into into, core::ScatterMode mode, const Tensor& x, int64_t dim, const Tensor& index,
               const Tensor& src);
Tensor index_add(Into into, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                 double alpha);
Tensor index_put(Into into, const Tensor& x, const std::vector<Tensor>& indices,
                 const Tensor& values, bool accumulate);
Tensor put(Into into, const Tensor& x, const Tensor& index, const Tensor& src, bool accumulate);
Tensor index_copy(Into into, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_fill(Into into, const Tensor& x, int64_t dim, const Tensor& index,
                  const Tensor& value);
Tensor scatter_reduce(Into into, const Tensor& x, int64_t dim, const Tensor& index,
                      const Tensor& src, ScatterReduce reduce, bool include_self);
/// \}

/// Changes `x` in place to the result of result(Into). If nothing is recorded, that is
/// result(Into::memory), which makes no copy of x; if it returns another array, its values are
/// copied into x.
template <class F>
const Tensor& write_into(const char* op, const Tensor& x, bool others_want_grad, F&& result) {
  return write_in_place(
      op, x, others_want_grad, [&] { return result(Into::copy); },
      [&](const Array& array) {
        const NoGrad no_grad;
        core::check_no_overlap(op, array);
        const Array found = result(Into::memory).array();
        if (found.storage_ref() != array.storage_ref()) overwrite(op, array, found);
      });
}

}  // namespace hero::detail
