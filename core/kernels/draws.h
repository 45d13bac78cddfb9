#pragma once
// The maps from Philox words to the numbers of a distribution, for host and device: the formulas
// behind core/random.h. A functor maps one word, or two (high, low), to one number; those of normal
// distributions map two uniform numbers to two.
#include <cmath>
#include <limits>
#include <type_traits>

#include <hero/core/kernels/philox.h>

namespace hero::draws {

/// [low, high); float in steps of 2^-24 of the range, double in steps of 2^-53.
template <class T>
struct Uniform {
  using Number = T;
  static constexpr int words = sizeof(T) == 4 ? 1 : 2;
  T low, range, last;  ///< last: the largest number below high, which rounding may reach

  Uniform(T from, T to) : low(from), range(to - from), last(std::nextafter(to, from)) {}
  HERO_HD T operator()(uint32_t word) const { return spread(philox::uniform24(word)); }
  HERO_HD T operator()(uint32_t high, uint32_t low_word) const {
    return spread(philox::uniform53(high, low_word));
  }

 private:
  HERO_HD T spread(T unit) const {
    const T x = low + range * unit;
    return x < last ? x : last;
  }
};

/// mean + stddev z for a pair of standard normal numbers z.
template <class T>
struct Normal {
  using Number = T;
  static constexpr int words = sizeof(T) == 4 ? 1 : 2;
  double mean, stddev;

  /// u in (0, 1] and v in [0, 1).
  HERO_HD void operator()(double u, double v, T& first, T& second) const {
    const philox::NormalPair z = philox::box_muller(u, v);
    first = static_cast<T>(mean + stddev * z.first);
    second = static_cast<T>(mean + stddev * z.second);
  }
};

/// Integers in [low, low + range).
struct Integer {
  using Number = int64_t;
  static constexpr int words = 2;
  uint64_t low, range;

  HERO_HD int64_t operator()(uint32_t high, uint32_t low_word) const {
    return static_cast<int64_t>(low + philox::scale_to(philox::join(high, low_word), range));
  }
};

/// True with a probability that is rounded to a multiple of 2^-32.
struct Bernoulli {
  using Number = bool;
  static constexpr int words = 1;
  uint64_t threshold;  ///< 2^32: always true

  explicit Bernoulli(double p) : threshold(static_cast<uint64_t>(std::nearbyint(p * 0x1p32))) {}
  HERO_HD bool operator()(uint32_t word) const { return word < threshold; }
};

/// -ln(u) / rate.
template <class T>
struct Exponential {
  using Number = T;
  static constexpr int words = sizeof(T) == 4 ? 1 : 2;
  double rate;

  HERO_HD T operator()(uint32_t word) const { return of(philox::positive32(word)); }
  HERO_HD T operator()(uint32_t high, uint32_t low) const {
    return of(philox::positive53(high, low));
  }

 private:
  HERO_HD T of(double u) const { return static_cast<T>((0.0 - philox::log_of(u)) / rate); }
};

/// The count of numbers that a functor D makes from a block of four words.
template <class Draw>
inline constexpr int kPerBlock = 4 / Draw::words;

/// All numbers of a block.
template <class Draw>
HERO_HD inline void numbers(const Draw& draw, const philox::Block& block,
                            typename Draw::Number (&out)[kPerBlock<Draw>]) {
  const uint32_t(&w)[4] = block.word;
  if constexpr (std::is_same_v<Draw, Normal<float>>) {
    draw(philox::positive32(w[0]), philox::exact_double(w[1]) * 0x1p-32, out[0], out[1]);
    draw(philox::positive32(w[2]), philox::exact_double(w[3]) * 0x1p-32, out[2], out[3]);
  } else if constexpr (std::is_same_v<Draw, Normal<double>>) {
    draw(philox::positive53(w[0], w[1]), philox::uniform53(w[2], w[3]), out[0], out[1]);
  } else if constexpr (Draw::words == 1) {
    for (int i = 0; i < 4; ++i) out[i] = draw(w[i]);
  } else {
    for (int i = 0; i < 2; ++i) out[i] = draw(w[2 * i], w[2 * i + 1]);
  }
}

}  // namespace hero::draws
