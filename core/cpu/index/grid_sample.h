#pragma once
// Sampling of images and volumes at points, and its gradients, for float and double.
#include <hero/core/functions/grid_sample.h>

namespace hero::core::cpu {

/// What is sampled: `images` of `channels` planes, each at `points` points of its own.
struct Sampled {
  GridSampling how;
  int64_t images, channels, points;
  int64_t size[3];  // of a plane, in `dims` dimensions
  int dims;

  int64_t plane() const { return size[0] * size[1] * (dims == 3 ? size[2] : 1); }
};

/// out [images, channels, points] from x [images, channels, sizes..] and grid [images, points,
/// dims].
template <class T>
void grid_sample(const Sampled& sampled, const T* x, const T* grid, T* out);
/// The gradients of x and grid from that of out. Of each place of x the terms are added tile of
/// points by tile, of each point channel by channel.
template <class T>
void grid_sample_back_x(const Sampled& sampled, const T* g, const T* grid, T* g_x);
template <class T>
void grid_sample_back_grid(const Sampled& sampled, const T* g, const T* x, const T* grid,
                           T* g_grid);

}  // namespace hero::core::cpu
