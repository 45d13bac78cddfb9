#pragma once
// Chapter 9: bytes by what they are for.
#include <functional>
#include <string>
#include <vector>

#include "support/options/program.h"

#include <hero/autograd/autograd.h>
#include <hero/core/ledger.h>
#include <hero/nn/nn.h>

namespace tutorial {

// [snippet: network]
/// The slides' network: 784-512-512-10.
struct Network : hero::nn::Module {
  hero::nn::Linear& fc1 = add<hero::nn::Linear>("fc1", 784, 512);
  hero::nn::Linear& fc2 = add<hero::nn::Linear>("fc2", 512, 512);
  hero::nn::Linear& fc3 = add<hero::nn::Linear>("fc3", 512, 10);
  hero::Tensor forward(const hero::Tensor& x) override { return fc3(relu(fc2(relu(fc1(x))))); }
};
// [end]

/// Images and labels made by chance, charged to no chapter of the ledger that we look at.
struct Batch {
  hero::Tensor images, labels;
};
Batch random_batch(int64_t rows);

/// Prints lines of a table: what a ledger holds under each tag.
class MemoryTable {
 public:
  explicit MemoryTable(const hero::Ledger& ledger) : ledger_(ledger) {}
  static void head(const std::string& title);
  void line(const std::string& moment) const;
  /// A line of given numbers: parameters, gradients, optimizer, activations.
  static void line(const std::string& moment, const std::vector<int64_t>& bytes);

 private:
  const hero::Ledger& ledger_;
};

bool same_bits(const hero::Tensor& a, const hero::Tensor& b);

/// One point of a memory measurement.
struct Cost {
  int layers;
  double units;  ///< largest memory for activations, in activations of one layer
  int forwards;  ///< calls of a layer
};
/// Peak against number of layers, beside the curve 2 sqrt(n).
void draw_checkpoints(const std::vector<Cost>& plain, const std::vector<Cost>& blocks,
                      const std::vector<Cost>& roots, const std::string& folder);

/// Two steps of Adam on the network: live bytes by tag, noted at each layer's forward and backward.
void draw_step(const std::string& folder);

}  // namespace tutorial
