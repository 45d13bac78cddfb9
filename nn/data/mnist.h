#pragma once
// MNIST and Fashion-MNIST: 60000 images to train and 10000 to test, 28 x 28, ten classes.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <hero/nn/data/dataset.h>

namespace hero::nn::data {

struct MNISTOptions {
  bool train = true;
  /// Folder with the four IDX files, plain or .gz. Empty: the data set's folder, or the files
  /// themselves, in the folder named by HERO_DATA; then where Debian's package puts them.
  std::string root = {};
  DType dtype = kFloat32;  ///< of the images: float32 in 0..1, or kUInt8 in 0..255
};

/// LeCun's handwritten digits. A sample is {image [1, 28, 28], class (int64, shape [])}. The images
/// lie in memory as uint8; batches are converted as they are made.
class MNIST : public Dataset {
 public:
  explicit MNIST(const MNISTOptions& options = {});
  int64_t size() const override { return images_.size(0); }
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;

  /// All images, uint8 [N, 28, 28].
  Tensor images() const { return Tensor(images_); }
  /// All classes, int64 [N].
  Tensor targets() const { return Tensor(targets_); }
  /// The classes' names.
  const std::vector<std::string>& classes() const { return classes_; }

 protected:
  /// What tells one data set of this form from another.
  struct Kind {
    const char* name;     // in errors
    const char* folder;   // below HERO_DATA
    const char* package;  // Debian's, or null
    std::vector<std::string> classes;
  };
  MNIST(const MNISTOptions& options, Kind kind);

 private:
  Array images_, targets_;
  DType dtype_;
  std::vector<std::string> classes_;
};

/// Zalando's articles of clothing (Xiao et al., arXiv 1708.07747); Debian: dataset-fashion-mnist.
class FashionMNIST : public MNIST {
 public:
  explicit FashionMNIST(const MNISTOptions& options = {});
};

}  // namespace hero::nn::data
