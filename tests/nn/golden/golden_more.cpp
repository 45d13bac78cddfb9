// Makers of power-average and fractional pooling, and of the adaptive softmax.
#include "nn/golden/layer_cases.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/nn/adaptive_softmax.h>
#include <hero/nn/pool.h>

namespace hero::test {

namespace {

using I = int64_t;

// Random numbers [N, C, dimensions], as nested lists.
Tensor samples(const Json& a) {
  std::vector<double> values;
  const Json& all = a["_random_samples"];
  for (const Json& image : all) {
    for (const Json& channel : image) {
      for (const Json& each : channel) values.push_back(each.get<double>());
    }
  }
  const auto images = static_cast<I>(all.size()), channels = static_cast<I>(all[0].size());
  return tensor(values, {.dtype = kFloat64}).reshape({images, channels, -1});
}

template <class M, class Kernel, class Read>
Subject power_pool(const Json& a, Read read) {
  typename M::Options options{.ceil_mode = get(a, "ceil_mode", false)};
  if (a.contains("stride")) options.stride = read(a["stride"]);
  return layer<M>(a["norm_type"].get<double>(), Kernel(read(a["kernel_size"])), options);
}

template <class M, class Size, class Read>
Subject fractional_pool(const Json& a, Read read) {
  typename M::Options options{.output_ratio = one_or_each<double>(a, "output_ratio"),
                              .random_samples = samples(a)};
  if (a.contains("output_size")) options.output_size = read(a["output_size"]);
  return layer<M>(Size(read(a["kernel_size"])), options);
}

Subject adaptive(const Json& a, const Json&) {
  const nn::AdaptiveLogSoftmaxOptions options{.div_value = get(a, "div_value", 4.0),
                                              .head_bias = get(a, "head_bias", false)};
  auto module = std::make_unique<nn::AdaptiveLogSoftmaxWithLoss>(
      a["in_features"].get<I>(), a["n_classes"].get<I>(), a["cutoffs"].get<std::vector<I>>(),
      options);
  auto* raw = module.get();
  return {std::move(module), [raw](const Tensors& x) {
            const auto [output, loss] = (*raw)(x[0], x[1]);
            return Tensors{output, loss};
          }};
}

}  // namespace

void add_more_layers(Makers& m) {
  const auto one = [](const Json& value) { return value.get<I>(); };
  const auto two = [](const Json& value) { return size2(value); };
  const auto three = [](const Json& value) { return size3(value); };
  m["LPPool1d"] = [=](const Json& a, const Json&) { return power_pool<nn::LPPool1d, I>(a, one); };
  m["LPPool2d"] = [=](const Json& a, const Json&) {
    return power_pool<nn::LPPool2d, nn::Size2>(a, two);
  };
  m["LPPool3d"] = [=](const Json& a, const Json&) {
    return power_pool<nn::LPPool3d, nn::Size3>(a, three);
  };
  m["FractionalMaxPool2d"] = [=](const Json& a, const Json&) {
    return fractional_pool<nn::FractionalMaxPool2d, nn::Size2>(a, two);
  };
  m["FractionalMaxPool3d"] = [=](const Json& a, const Json&) {
    return fractional_pool<nn::FractionalMaxPool3d, nn::Size3>(a, three);
  };
  m["AdaptiveLogSoftmaxWithLoss"] = adaptive;
}

}  // namespace hero::test
