#include <hero/core/checked.h>
#include <hero/nn/repr.h>
#include <hero/nn/shape.h>

namespace hero::nn {

std::string Flatten::extra_repr() const {
  return "start_dim=" + std::to_string(start_) + ", end_dim=" + std::to_string(end_);
}

Tensor Unflatten::forward(const Tensor& x) {
  const int axis = normalize_dim("Unflatten", dim_, x.ndim());
  Shape sizes = sizes_;
  for (int64_t& size : sizes) size = size == -1 ? 1 : size;
  const int64_t known = sizes.numel("Unflatten");
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes_[i] == -1 && known > 0) sizes[i] = x.size(axis) / known;
  }
  check(sizes.numel("Unflatten") == x.size(axis), "Unflatten: size ", x.size(axis),
        " of dimension ", dim_, " does not become ", sizes_, ": x has shape ", x.shape());
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis) shape.push_back(x.size(i));
    if (i != axis) continue;
    for (const int64_t size : sizes) shape.push_back(size);
  }
  return reshape(x, shape);
}

std::string Unflatten::extra_repr() const {
  return "dim=" + std::to_string(dim_) + ", unflattened_size=" + repr::tuple(sizes_);
}

std::string ZeroPad2d::extra_repr() const {
  return repr::tuple({padding_[0], padding_[1], padding_[2], padding_[3]});
}

Upsample::Upsample(const UpsampleOptions& options) : options_(options) {
  check(options.size.has_value() != options.scale_factor.has_value(),
        "Upsample: give either size or scale_factor");
}

Tensor Upsample::forward(const Tensor& x) {
  if (options_.size) return upsample_nearest2d(x, *options_.size);
  check(x.ndim() == 3 || x.ndim() == 4, "Upsample: x must be [N, C, H, W] or [C, H, W]: got shape ",
        x.shape());
  const Size2 scale = *options_.scale_factor;
  const core::Checked height{"Upsample", x.size(-2)}, width{"Upsample", x.size(-1)};
  return upsample_nearest2d(x, {(height * scale.height).value, (width * scale.width).value});
}

std::string Upsample::extra_repr() const {
  const auto pair = [](const Size2& s) { return repr::tuple({s.height, s.width}); };
  const auto number = [](int64_t n) { return repr::text(static_cast<double>(n)); };
  const std::string end = ", mode='nearest'";
  if (options_.size) return "size=" + pair(*options_.size) + end;
  const Size2 scale = *options_.scale_factor;
  if (scale.height == scale.width) return "scale_factor=" + number(scale.height) + end;
  return "scale_factor=(" + number(scale.height) + ", " + number(scale.width) + ")" + end;
}

}  // namespace hero::nn
