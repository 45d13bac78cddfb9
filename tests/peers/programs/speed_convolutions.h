#pragma once
// The convolutions that both sides of tests/peers/run time: what networks have beside 3 x 3 windows
// that move by one.
#include <cstdint>
#include <vector>

namespace peers {

/// Of planes, or of lines where x has height 1. `w` is [O, C / groups, ..], that of a transposed
/// one [C, O / groups, ..].
struct Convolution {
  const char* name;
  std::vector<int64_t> x, w;
  int64_t stride = 1, groups = 1;
  bool is_transposed = false;

  std::vector<int64_t> padding() const {
    const int64_t around = is_transposed ? (w[2] - stride + 1) / 2 : w[3] / 2;
    return {w[2] == 1 ? 0 : around, around};
  }
};

inline const std::vector<Convolution> kConvolutions = {
    {"conv_3x3", {32, 64, 56, 56}, {64, 64, 3, 3}},
    {"conv_3x3_s2", {32, 64, 56, 56}, {128, 64, 3, 3}, 2},
    {"conv_3x3_s2_14", {32, 256, 14, 14}, {512, 256, 3, 3}, 2},
    {"conv_7x7_s2", {32, 3, 224, 224}, {64, 3, 7, 7}, 2},
    {"conv_1x1_s2", {32, 64, 56, 56}, {128, 64, 1, 1}, 2},
    {"conv_4x4_s4", {32, 3, 224, 224}, {96, 3, 4, 4}, 4},
    {"conv_groups_56", {16, 128, 56, 56}, {128, 4, 3, 3}, 1, 32},
    {"conv_groups_14", {16, 512, 14, 14}, {512, 16, 3, 3}, 1, 32},
    {"conv_groups_s2", {16, 256, 56, 56}, {256, 8, 3, 3}, 2, 32},
    {"depthwise_3x3_112", {16, 32, 112, 112}, {32, 1, 3, 3}, 1, 32},
    {"depthwise_3x3_28", {16, 256, 28, 28}, {256, 1, 3, 3}, 1, 256},
    {"depthwise_3x3_14", {16, 512, 14, 14}, {512, 1, 3, 3}, 1, 512},
    {"depthwise_3x3_7", {16, 1024, 7, 7}, {1024, 1, 3, 3}, 1, 1024},
    {"depthwise_3x3_s2", {16, 64, 112, 112}, {64, 1, 3, 3}, 2, 64},
    {"depthwise_7x7_56", {8, 96, 56, 56}, {96, 1, 7, 7}, 1, 96},
    {"depthwise_7x7_14", {8, 384, 14, 14}, {384, 1, 7, 7}, 1, 384},
    {"depthwise_line", {4, 768, 1, 1024}, {768, 1, 1, 4}, 1, 768},
    {"transposed_4x4_s2", {16, 128, 16, 16}, {128, 64, 4, 4}, 2, 1, true},
    {"transposed_2x2_s2", {8, 128, 28, 28}, {128, 64, 2, 2}, 2, 1, true},
};

}  // namespace peers
