#pragma once
// MNIST and Fashion-MNIST: 60000 images to train and 10000 to test, 28 x 28, ten classes.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <hero/nn/data/dataset.h>

namespace hero::nn::data {

/// Options of MNIST and FashionMNIST.
struct MNISTOptions {
  bool train = true;  ///< true: the 60000 images for training, else the 10000 for testing
  /// The folder with the four IDX files, plain or .gz. When empty, they are looked for in the
  /// folder that the environment variable HERO_DATA names, in a subfolder or in itself, then where
  /// Debian's package installs them.
  std::string root = {};
  DType dtype = kFloat32;  ///< dtype of images: float32 from 0 to 1, or kUInt8 from 0 to 255
};

/// LeCun's handwritten digits. A sample is {image [1, 28, 28], class (int64, shape [])}. Images are
/// in memory as uint8, and are converted when a batch is made.
class MNIST : public Dataset {
 public:
  /// Reads the files. Throws an Error that names the places where they were looked for if there are
  /// none.
  explicit MNIST(const MNISTOptions& options = {});
  int64_t size() const override { return images_.size(0); }
  Example get(int64_t index) const override;
  Example get_batch(std::span<const int64_t> indices) const override;

  /// All images, uint8 [N, 28, 28].
  Tensor images() const { return Tensor(images_); }
  /// All classes, int64 [N].
  Tensor targets() const { return Tensor(targets_); }
  /// The names of the classes.
  const std::vector<std::string>& classes() const { return classes_; }

 protected:
  /// What tells one data set of this form from another.
  struct Kind {
    const char* name;     // name of the data set in errors
    const char* folder;   // below HERO_DATA
    const char* package;  // Debian's, or null
    std::vector<std::string> classes;
  };
  /// Reads the files of another data set in the same format.
  MNIST(const MNISTOptions& options, Kind kind);

 private:
  Array images_, targets_;
  DType dtype_;
  std::vector<std::string> classes_;
};

/// Zalando's articles of clothing (Xiao et al., arXiv 1708.07747); Debian: dataset-fashion-mnist.
class FashionMNIST : public MNIST {
 public:
  /// Reads the files, as MNIST does.
  explicit FashionMNIST(const MNISTOptions& options = {});
};

}  // namespace hero::nn::data
