#pragma once
// One element of a step of recurrent cells, as every device computes it; see CellStep in
// core/device/calls.h for the blocks of the gates.
#include <hero/core/kernels/config.h>
#include <hero/core/kernels/math.h>

namespace hero::core::kernels {

/// c = f c_before + i g, and h = o tanh(c).
/// S. Hochreiter and J. Schmidhuber, "Long short-term memory", 1997, with the forget gate of Gers,
/// Schmidhuber and Cummins, 2000.
template <class T>
struct LstmGates {
  T i, f, g, o;
};

template <class T>
[[gnu::always_inline]] HERO_HD inline T lstm_cell(const LstmGates<T>& gates, T c_before) {
  return gates.f * c_before + gates.i * gates.g;
}

template <class T>
[[gnu::always_inline]] HERO_HD inline T lstm_output(T o, T c) {
  return o * math::tanh(c);
}

/// The gradients of the gates' sums; the gradient of c is replaced by that of c_before.
template <class T>
struct LstmGradients {
  LstmGates<T> sums;
  T c_before;
};

template <class T>
[[gnu::always_inline]] HERO_HD inline LstmGradients<T> lstm_gradients(const LstmGates<T>& gates,
                                                                      T c_before, T c, T g_h,
                                                                      T g_c) {
  const auto [i, f, g, o] = gates;
  const T squashed = math::tanh(c);
  const T cell = g_c + g_h * o * (T(1) - squashed * squashed);
  return {{cell * g * (i * (T(1) - i)), cell * c_before * (f * (T(1) - f)),
           cell * i * (T(1) - g * g), g_h * squashed * (o * (T(1) - o))},
          cell * f};
}

/// h = n + z (h_before - n).
/// K. Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.
template <class T>
struct GruGates {
  T r, z, n;
};

template <class T>
[[gnu::always_inline]] HERO_HD inline T gru_output(T z, T n, T h_before) {
  return n + z * (h_before - n);
}

/// The gradients of the sums over x and over h, of which the first two gates' are equal, and the
/// part of h_before's gradient that comes through no product.
template <class T>
struct GruGradients {
  T r, z, n_of_x, n_of_h, h_before;
};

template <class T>
[[gnu::always_inline]] HERO_HD inline GruGradients<T> gru_gradients(const GruGates<T>& gates,
                                                                    T n_of_h, T h_before, T g_h) {
  const auto [r, z, n] = gates;
  const T g_n = g_h * (T(1) - z) * (T(1) - n * n);
  return {g_n * n_of_h * (r * (T(1) - r)), g_h * (h_before - n) * (z * (T(1) - z)), g_n, g_n * r,
          g_h * z};
}

}  // namespace hero::core::kernels
