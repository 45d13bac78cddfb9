#include <algorithm>

#include <hero/core/error.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/idx.h>
#include <hero/nn/data/mnist.h>

namespace hero::nn::data {
namespace {

constexpr const char* kDebianFolder = "/usr/share/datasets/";

// The file in one of the folders, plain or compressed; "" when there is none.
std::string find_in(const std::vector<std::string>& folders, const std::string& file) {
  for (const std::string& folder : folders) {
    for (const char* ending : {"", ".gz"}) {
      std::string path = folder;
      path += '/';
      path += file;
      path += ending;
      if (is_file(path)) return path;
    }
  }
  return "";
}

void convert_row(const uint8_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) / 255.0f;
}

}  // namespace

MNIST::MNIST(const MNISTOptions& options)
    : MNIST(options, Kind{.name = "mnist",
                          .folder = "mnist",
                          .package = nullptr,
                          .classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}}) {}

FashionMNIST::FashionMNIST(const MNISTOptions& options)
    : MNIST(options, Kind{.name = "fashion_mnist",
                          .folder = "fashion-mnist",
                          .package = "dataset-fashion-mnist",
                          .classes = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                      "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"}}) {}

MNIST::MNIST(const MNISTOptions& options, Kind kind)
    : dtype_(options.dtype), classes_(std::move(kind.classes)) {
  check(dtype_ == kFloat32 || dtype_ == kUInt8, kind.name, ": images can be float32 or uint8, not ",
        dtype_);
  std::vector<std::string> folders{options.root};
  if (options.root.empty()) {
    folders.clear();
    const std::string data = data_folder();
    if (!data.empty()) folders = {data + "/" + kind.folder, data};
    folders.push_back(std::string(kDebianFolder) + kind.folder);
  }
  const std::string part = options.train ? "train" : "t10k";
  std::string paths[2];
  const std::string names[2] = {part + "-images-idx3-ubyte", part + "-labels-idx1-ubyte"};
  for (int i = 0; i < 2; ++i) {
    paths[i] = find_in(folders, names[i]);
    std::string searched;
    for (const std::string& folder : folders) searched += (searched.empty() ? "" : ", ") + folder;
    const std::string remedy =
        kind.package != nullptr
            ? std::string("install the package ") + kind.package + " (apt-get install " +
                  kind.package + ")"
            : std::string("put its four files into a folder and name it as root");
    check(!paths[i].empty(), kind.name, ": no ", names[i], " or ", names[i], ".gz in ", searched,
          "; ", remedy, ", or set HERO_DATA");
  }
  images_ = load_idx(paths[0]);
  const Array labels = load_idx(paths[1]);
  check(images_.ndim() == 3 && images_.dtype() == kUInt8, kind.name, ": ", paths[0], " holds ",
        images_.dtype(), " ", images_.shape(), ", not uint8 images [N, rows, columns]");
  check(labels.ndim() == 1 && labels.dtype() == kUInt8, kind.name, ": ", paths[1], " holds ",
        labels.dtype(), " ", labels.shape(), ", not uint8 labels [N]");
  check(images_.size(0) == labels.size(0), kind.name, ": sizes do not agree: ", images_.size(0),
        " images in ", paths[0], ", ", labels.size(0), " labels in ", paths[1]);
  const std::vector<int64_t> values = labels.to_vector<int64_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    check(values[i] < static_cast<int64_t>(classes_.size()), kind.name, ": label ", i, " of ",
          paths[1], " is ", values[i], ", there are ", classes_.size(), " classes");
  }
  targets_ = labels.to(kInt64);
}

Example MNIST::get(int64_t index) const {
  const Example batch = get_batch(std::span(&index, 1));
  return {Tensor(batch[0].array().select(0, 0)), Tensor(batch[1].array().select(0, 0))};
}

Example MNIST::get_batch(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t pixels = images_.size(1) * images_.size(2);
  const Array images = Array::empty({count, 1, images_.size(1), images_.size(2)}, dtype_);
  const Array targets = Array::empty({count}, kInt64);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    check_index("mnist", index);
    targets.data<int64_t>()[i] = targets_.data<int64_t>()[index];
    if (pixels == 0) continue;
    const uint8_t* from = images_.data<uint8_t>() + index * pixels;
    if (dtype_ == kFloat32) {
      convert_row(from, images.data<float>() + i * pixels, pixels);
    } else {
      std::copy_n(from, pixels, images.data<uint8_t>() + i * pixels);
    }
  }
  return {Tensor(images), Tensor(targets)};
}

}  // namespace hero::nn::data
