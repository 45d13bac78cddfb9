#include <algorithm>

#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/core/ledger.h>
#include <hero/dist/compress/error_feedback.h>

namespace hero::dist {
namespace {

constexpr std::string_view kErrorKey = "error.", kMeanKey = "mean.";

bool same_places(const std::vector<BucketParameter>& a, const std::vector<BucketParameter>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.begin == y.begin && x.shape == y.shape;
  });
}

Array slice_of(const Array& error, const BucketParameter& parameter) {
  return error.slice(0, parameter.begin, parameter.begin + parameter.shape.numel());
}

// A bucket's name: two with the same parameters and number of elements are one.
std::string key_of(const GradBucket& bucket, int64_t elements) {
  return std::to_string(elements) + " of " + std::to_string(bucket.buffer.numel()) + " from " +
         bucket.parameters.front().name;
}

}  // namespace

const Array& ErrorFeedback::of(const GradBucket& bucket) {
  const auto known = std::find_if(buckets_.begin(), buckets_.end(), [&](const Bucket& b) {
    return b.error.numel() == bucket.buffer.numel() && same_places(b.parameters, bucket.parameters);
  });
  if (known != buckets_.end()) return known->error;
  const MemoryScope tag(MemoryTag::gradient);
  Bucket made{bucket.parameters,
              Array::zeros({bucket.buffer.numel()}, kFloat32, bucket.buffer.device())};
  move_errors(made);
  return buckets_.emplace_back(std::move(made)).error;
}

void ErrorFeedback::move_errors(Bucket& to) {
  for (const BucketParameter& parameter : to.parameters) {
    for (Bucket& from : buckets_) {
      const auto found =
          std::find_if(from.parameters.begin(), from.parameters.end(),
                       [&](const BucketParameter& p) { return p.name == parameter.name; });
      if (found == from.parameters.end()) continue;
      check(found->shape.numel() == parameter.shape.numel(), "comm_hook: the error of '",
            parameter.name, "' is of ", found->shape.numel(), " elements, its gradient of ",
            parameter.shape.numel());
      core::backend(to.error.device())
          .run(core::call::Copy{slice_of(from.error, *found), slice_of(to.error, parameter)});
      from.parameters.erase(found);
    }
  }
  std::erase_if(buckets_, [](const Bucket& bucket) { return bucket.parameters.empty(); });
}

const Array& ErrorFeedback::of_mean(const GradBucket& bucket, int64_t elements) {
  const MemoryScope tag(MemoryTag::gradient);
  Array& error = means_[key_of(bucket, elements)];
  if (!error.defined()) error = Array::zeros({elements}, kFloat32, bucket.buffer.device());
  return error;
}

optim::StateDict ErrorFeedback::state_dict() const {
  optim::StateDict dict;
  for (const Bucket& bucket : buckets_) {
    for (const BucketParameter& parameter : bucket.parameters) {
      dict.push_back({std::string(kErrorKey) + parameter.name,
                      slice_of(bucket.error, parameter).reshape(parameter.shape).clone()});
    }
  }
  for (const auto& [key, error] : means_)
    dict.push_back({std::string(kMeanKey) + key, error.clone()});
  return dict;
}

void ErrorFeedback::load_state_dict(const char* what, const optim::StateDict& dict) {
  const MemoryScope tag(MemoryTag::gradient);
  ErrorFeedback loaded;
  for (const auto& [name, array] : dict) {
    const bool mean = name.starts_with(kMeanKey);
    check(mean || name.starts_with(kErrorKey), what, ": '", name, "' is no state of it");
    check(array.dtype() == kFloat32, what, ": '", name, "' is ", array.dtype(), ", not float32");
    if (mean) {
      loaded.means_[name.substr(kMeanKey.size())] = array.reshape({array.numel()}).clone();
    } else {
      loaded.buckets_.push_back({{{name.substr(kErrorKey.size()), 0, array.shape()}},
                                 array.reshape({array.numel()}).clone()});
    }
  }
  *this = std::move(loaded);
}

}  // namespace hero::dist
