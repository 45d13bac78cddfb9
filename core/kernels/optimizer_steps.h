#pragma once
// Every elementwise optimizer step as a functor on one parameter, its gradient and its states, for
// host and device. A functor names how many states it keeps and holds its coefficients, which are
// computed in double and converted once: Step<double> is what an optimizer fills, Step<T> what a
// kernel runs. Elements never meet, so any piece of an array can be updated alone and keeps its
// bits. Formulas and papers: the classes in <hero/optim/>.
#include <limits>

#include <hero/core/array/type_list.h>
#include <hero/core/kernels/math.h>

namespace hero::core::kernels {

/// The gradient that an optimizer uses: negated to maximize, with L2 decay added.
template <class T>
struct Seen {
  T sign;          ///< -1 to maximize, else 1
  T weight_decay;  ///< 0 for none

  HERO_HD T operator()(T p, T g) const {
    const T turned = sign * g;
    return weight_decay != T(0) ? turned + weight_decay * p : turned;
  }
};

/// rest * g^2, also where the square alone leaves the range: a mean square that was infinite once
/// stays so, and its element never moves again.
template <class T>
HERO_HD T share_of_square(T rest, T g) {
  const T square = g * g;
  return square <= std::numeric_limits<T>::max() ? rest * square : rest * g * g;
}

struct SGD {
  static constexpr auto name = "sgd";
  static constexpr int states = 0;
  template <class T>
  struct Step {
    Seen<T> seen;
    T lr;
    HERO_HD void operator()(T& p, T g) const { p = p - lr * seen(p, g); }
  };
};

/// States: momentum buffer. The first step puts the gradient itself into it.
template <bool kNesterov>
struct SGDMomentum {
  static constexpr auto name = "sgd";
  static constexpr int states = 1;
  template <class T>
  struct Step {
    Seen<T> seen;
    T lr, momentum, rest;  ///< rest = 1 - dampening
    T first;               ///< 1 on the first step, else 0
    HERO_HD void operator()(T& p, T g, T& b) const {
      g = seen(p, g);
      b = first != T(0) ? g : momentum * b + rest * g;
      p = p - lr * (kNesterov ? g + momentum * b : b);
    }
  };
};

/// States: velocity, the point before the look ahead.
struct NesterovLookahead {
  static constexpr auto name = "nesterov_lookahead";
  static constexpr int states = 2;
  template <class T>
  struct Step {
    T sign, lr, momentum;
    HERO_HD void operator()(T& p, T g, T& v, T& origin) const {
      v = momentum * v - lr * (sign * g);
      p = origin + v;
    }
  };
};

/// States: sum of squares.
struct Adagrad {
  static constexpr auto name = "adagrad";
  static constexpr int states = 1;
  template <class T>
  struct Step {
    Seen<T> seen;
    T lr, eps;  ///< lr already decayed
    HERO_HD void operator()(T& p, T g, T& s) const {
      g = seen(p, g);
      s = s + g * g;
      p = p - lr * g / (math::sqrt(s) + eps);
    }
  };
};

/// Coefficients of RMSprop's four functors.
template <class T>
struct RMSpropStep {
  Seen<T> seen;
  T lr, alpha, rest, eps, momentum;  ///< rest = 1 - alpha

  HERO_HD void square(T g, T& v) const { v = alpha * v + share_of_square(rest, g); }
  HERO_HD T centered(T g, T v, T& m) const {
    m = alpha * m + rest * g;
    // A variance is not negative, but rounding makes the difference so where gradients hardly vary.
    // Where both terms are infinite, it is as infinite as v.
    const T spread = v - m * m;
    return spread > T(0) ? spread : spread <= T(0) ? T(0) : v;
  }
  HERO_HD T scaled(T g, T v) const { return g / (math::sqrt(v) + eps); }
};

/// States: mean square.
struct RMSprop {
  static constexpr auto name = "rmsprop";
  static constexpr int states = 1;
  template <class T>
  struct Step : RMSpropStep<T> {
    HERO_HD void operator()(T& p, T g, T& v) const {
      g = this->seen(p, g);
      this->square(g, v);
      p = p - this->lr * this->scaled(g, v);
    }
  };
};
/// States: mean square, momentum buffer.
struct RMSpropMomentum {
  static constexpr auto name = "rmsprop";
  static constexpr int states = 2;
  template <class T>
  struct Step : RMSpropStep<T> {
    HERO_HD void operator()(T& p, T g, T& v, T& b) const {
      g = this->seen(p, g);
      this->square(g, v);
      b = this->momentum * b + this->scaled(g, v);
      p = p - this->lr * b;
    }
  };
};
/// States: mean square, mean.
struct RMSpropCentered {
  static constexpr auto name = "rmsprop";
  static constexpr int states = 2;
  template <class T>
  struct Step : RMSpropStep<T> {
    HERO_HD void operator()(T& p, T g, T& v, T& m) const {
      g = this->seen(p, g);
      this->square(g, v);
      p = p - this->lr * this->scaled(g, this->centered(g, v, m));
    }
  };
};
/// States: mean square, mean, momentum buffer.
struct RMSpropCenteredMomentum {
  static constexpr auto name = "rmsprop";
  static constexpr int states = 3;
  template <class T>
  struct Step : RMSpropStep<T> {
    HERO_HD void operator()(T& p, T g, T& v, T& m, T& b) const {
      g = this->seen(p, g);
      this->square(g, v);
      b = this->momentum * b + this->scaled(g, this->centered(g, v, m));
      p = p - this->lr * b;
    }
  };
};

/// States: mean square of gradients, mean square of updates.
struct Adadelta {
  static constexpr auto name = "adadelta";
  static constexpr int states = 2;
  template <class T>
  struct Step {
    Seen<T> seen;
    T lr, rho, rest, eps;  ///< rest = 1 - rho
    HERO_HD void operator()(T& p, T g, T& v, T& u) const {
      g = seen(p, g);
      v = rho * v + share_of_square(rest, g);
      const T delta = math::sqrt(u + eps) / math::sqrt(v + eps) * g;
      u = rho * u + share_of_square(rest, delta);
      p = p - lr * delta;
    }
  };
};

/// The running means that the Adam family shares.
template <class T>
struct Moments {
  T beta1, rest1, beta2, rest2;  ///< rest = 1 - beta

  HERO_HD void operator()(T g, T& m, T& v) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + share_of_square(rest2, g);
  }
};

/// Coefficients of Adam and AdamW, which differ in what happens before. `keep` = 1 - lr *
/// weight_decay scales the parameter (AdamW, else 1); lr is already divided by 1 - beta1^t;
/// root = sqrt(1 - beta2^t).
template <class T>
struct AdamStep {
  Seen<T> seen;
  Moments<T> moments;
  T keep, lr, root, eps;

  HERO_HD T moved(T p, T m, T v) const { return p * keep - lr * m / (math::sqrt(v) / root + eps); }
};

/// States: mean, mean square.
struct Adam {
  static constexpr auto name = "adam";
  static constexpr int states = 2;
  template <class T>
  struct Step : AdamStep<T> {
    HERO_HD void operator()(T& p, T g, T& m, T& v) const {
      this->moments(this->seen(p, g), m, v);
      p = this->moved(p, m, v);
    }
  };
};
/// States: mean, mean square; both stay as they are, but the mean of an element whose mean square
/// is 0, which had no gradient while that was computed: it becomes 0. The gradient does not matter.
struct FrozenAdam {
  static constexpr auto name = "one_bit_adam";
  static constexpr int states = 2;
  template <class T>
  struct Step {
    T keep, lr, root, eps;  ///< as AdamStep's
    HERO_HD void operator()(T& p, T /*g*/, T& m, T& v) const {
      m = v > T(0) ? m : T(0);
      p = p * keep - lr * m / (math::sqrt(v) / root + eps);
    }
  };
};
/// States: mean, mean square, its largest value so far.
struct AdamAmsgrad {
  static constexpr auto name = "adam";
  static constexpr int states = 3;
  template <class T>
  struct Step : AdamStep<T> {
    HERO_HD void operator()(T& p, T g, T& m, T& v, T& largest) const {
      this->moments(this->seen(p, g), m, v);
      largest = largest > v ? largest : v;
      p = this->moved(p, m, largest);
    }
  };
};

/// States: mean, largest gradient.
struct Adamax {
  static constexpr auto name = "adamax";
  static constexpr int states = 2;
  template <class T>
  struct Step {
    Seen<T> seen;
    T lr, beta1, rest1, beta2, eps;  ///< lr already divided by 1 - beta1^t
    HERO_HD void operator()(T& p, T g, T& m, T& u) const {
      g = seen(p, g);
      m = beta1 * m + rest1 * g;
      const T faded = beta2 * u;
      const T size = math::abs(g) + eps;
      u = faded > size ? faded : size;
      p = p - lr * m / u;
    }
  };
};

/// States: mean, mean square.
struct NAdam {
  static constexpr auto name = "nadam";
  static constexpr int states = 2;
  template <class T>
  struct Step {
    Seen<T> seen;
    Moments<T> moments;
    T keep;              ///< 1 - lr * weight_decay if decoupled, else 1
    T lr_grad, lr_mean;  ///< lr (1 - mu_t) / (1 - P_t) and lr mu_{t+1} / (1 - P_{t+1})
    T correction2, eps;  ///< 1 - beta2^t
    HERO_HD void operator()(T& p, T g, T& m, T& v) const {
      g = seen(p, g);
      moments(g, m, v);
      const T scale = math::sqrt(v / correction2) + eps;
      p = p * keep - lr_grad * g / scale - lr_mean * m / scale;
    }
  };
};

/// States: mean, mean square.
struct RAdam {
  static constexpr auto name = "radam";
  static constexpr int states = 2;
  template <class T>
  struct Step {
    Seen<T> seen;
    Moments<T> moments;
    T keep, lr, eps;    ///< keep as in NAdam; lr already divided by 1 - beta1^t
    T rectified, gain;  ///< 1 where the variance is known well enough, else 0; then the factor
    HERO_HD void operator()(T& p, T g, T& m, T& v) const {
      moments(seen(p, g), m, v);
      const T adapted = lr * m * gain / (math::sqrt(v) + eps);
      p = p * keep - (rectified != T(0) ? adapted : lr * m);
    }
  };
};

/// Computes only the direction of LAMB's step, which LambStep then applies. States: mean, mean
/// square, direction.
struct LambDirection {
  static constexpr auto name = "lamb";
  static constexpr int states = 3;
  template <class T>
  struct Step {
    T sign;
    Moments<T> moments;
    T correction1, correction2, eps, weight_decay;  ///< corrections: 1 - beta^t
    HERO_HD void operator()(T& p, T g, T& m, T& v, T& direction) const {
      moments(sign * g, m, v);
      direction = m / correction1 / (math::sqrt(v / correction2) + eps) + weight_decay * p;
    }
  };
};

/// The factor of LAMB's learning rate: a parameter's norm divided by the norm of its direction.
HERO_HD inline double trust_ratio(double param, double direction) {
  return param > 0.0 && direction > 0.0 ? param / direction : 1.0;
}

/// The step along a direction, which is given in place of the gradient, by lr * trust_ratio() of
/// the item's two norms.
struct LambStep {
  static constexpr auto name = "lamb";
  static constexpr int states = 0;
  template <class T>
  struct Step {
    T lr;
    HERO_HD void operator()(T& p, T direction) const { p = p - lr * direction; }
  };
  template <class T>
  HERO_HD static Step<T> scaled(const Step<double>& step, const double* norms) {
    return {static_cast<T>(step.lr * trust_ratio(norms[0], norms[1]))};
  }
};

// [snippet: lion]
/// States: mean.
struct Lion {
  static constexpr auto name = "lion";
  static constexpr int states = 1;
  template <class T>
  struct Step {
    T sign, keep, lr;  ///< keep = 1 - lr * weight_decay
    T beta1, rest1, beta2, rest2;
    HERO_HD void operator()(T& p, T g, T& m) const {
      g = sign * g;
      const T c = beta1 * m + rest1 * g;
      const T direction = c > T(0) ? T(1) : (c < T(0) ? T(-1) : c);  // NaN stays
      p = p * keep - lr * direction;
      m = beta2 * m + rest2 * g;
    }
  };
};
// [end]

/// Every functor; a position in this list is an UpdateOp.
using UpdateList =
    TypeList<SGD, SGDMomentum<false>, SGDMomentum<true>, NesterovLookahead, Adagrad, RMSprop,
             RMSpropMomentum, RMSpropCentered, RMSpropCenteredMomentum, Adadelta, Adam, FrozenAdam,
             AdamAmsgrad, Adamax, NAdam, RAdam, LambDirection, LambStep, Lion>;

/// Functors whose coefficients depend on two numbers of the device, UpdateItem::norms.
template <class F>
concept TakesNorms = requires(const typename F::template Step<double>& step, const double* norms) {
  F::template scaled<float>(step, norms);
};

/// The number of coefficients of a functor.
template <class F>
inline constexpr int kCoefficients = static_cast<int>(sizeof(typename F::template Step<double>) /
                                                      sizeof(double));

}  // namespace hero::core::kernels
