"use strict";
// The optimizers of chapters 1 to 6, each as Hero's class of that name computes it: coefficients in
// double, rounded once; then every operation rounded (core/kernels/optimizer_steps.h).
const optimizers = (() => {
  const kBeta2 = 0.999, kAlpha = 0.99, kEps = 1e-8, kAdagradEps = 1e-10;

  const zeros = (x) => x.map(() => 0);

  // An optimizer that treats coordinate after coordinate: `rule(x, g, i)` gives the next x[i].
  const elementwise = (rule) => ({
    step(x, gradient) {
      return x.map((at, i) => rule(at, gradient[i], i));
    },
  });

  function sgd(r, x0, { lr }) {
    const rate = r(lr);
    return elementwise((x, g) => r(x - r(rate * g)));
  }

  // The buffer begins as the first gradient.
  function withMomentum(r, x0, { lr, momentum }, nesterov) {
    if (momentum === 0) return sgd(r, x0, { lr });
    const rate = r(lr), mu = r(momentum), buffer = x0.map(() => null);
    return elementwise((x, g, i) => {
      const b = (buffer[i] = buffer[i] === null ? g : r(r(mu * buffer[i]) + g));
      return r(x - r(rate * (nesterov ? r(g + r(mu * b)) : b)));
    });
  }

  // The gradient is taken where the momentum leads anyway; the step starts from the origin.
  function lookahead(r, x0, { lr, momentum }) {
    const rate = r(lr), mu = r(momentum), velocity = zeros(x0);
    let origin = x0;
    return {
      before(x) {
        origin = x;
        return x.map((at, i) => r(at + r(mu * velocity[i])));
      },
      ...elementwise((x, g, i) => {
        velocity[i] = r(r(mu * velocity[i]) - r(rate * g));
        return r(origin[i] + velocity[i]);
      }),
    };
  }

  function adagrad(r, x0, { lr }) {
    const rate = r(lr), eps = r(kAdagradEps), sum = zeros(x0);
    return elementwise((x, g, i) => {
      sum[i] = r(sum[i] + r(g * g));
      return r(x - r(r(rate * g) / r(r(Math.sqrt(sum[i])) + eps)));
    });
  }

  function rmsprop(r, x0, { lr }) {
    const rate = r(lr), alpha = r(kAlpha), rest = r(1 - kAlpha), eps = r(kEps), mean = zeros(x0);
    return elementwise((x, g, i) => {
      mean[i] = r(r(alpha * mean[i]) + r(rest * r(g * g)));
      return r(x - r(rate * r(g / r(r(Math.sqrt(mean[i])) + eps))));
    });
  }

  // Adam, and AdamW with its decay. Momentum is beta 1, as in chapter 6.
  function adam(r, x0, { lr, momentum }, decay) {
    const beta1 = r(momentum), rest1 = r(1 - momentum), beta2 = r(kBeta2), rest2 = r(1 - kBeta2);
    const keep = r(1 - lr * decay), eps = r(kEps), m = zeros(x0), v = zeros(x0);
    let t = 0, rate = 0, root = 0;
    const rule = elementwise((x, g, i) => {
      m[i] = r(r(beta1 * m[i]) + r(rest1 * g));
      v[i] = r(r(beta2 * v[i]) + r(rest2 * r(g * g)));
      return r(r(x * keep) - r(r(rate * m[i]) / r(r(r(Math.sqrt(v[i])) / root) + eps)));
    });
    return {
      step(x, gradient) {
        ++t;
        rate = r(lr / (1 - momentum ** t));
        root = r(Math.sqrt(1 - kBeta2 ** t));
        return rule.step(x, gradient);
      },
    };
  }

  // H^-1 g of one or two numbers, by Cramer's rule; null where H is singular.
  function newtonDirection(r, g, h) {
    if (g.length === 1) return h[0][0] === 0 ? null : [r(g[0] / h[0][0])];
    const det = h[0][0] * h[1][1] - h[0][1] * h[1][0];
    if (det === 0) return null;
    return [(g[0] * h[1][1] - g[1] * h[0][1]) / det, (g[1] * h[0][0] - g[0] * h[1][0]) / det];
  }

  function newton(r, x0, { lr }) {
    const rate = r(lr);
    return {
      step(x, gradient, f) {
        const direction = newtonDirection(r, gradient, f.hessian(x));
        return direction && x.map((at, i) => r(at - r(rate * direction[i])));
      },
    };
  }

  const rates = (valley, canyon) => ({ valley, newton: valley, canyon });

  // The rates are those of chapter 6's table.
  const methods = {
    sgd: { name: "Gradient descent", make: sgd, lr: rates(1, 1e-3), momentum: false },
    momentum: {
      name: "Momentum",
      make: (r, x0, o) => withMomentum(r, x0, o, false),
      lr: rates(1, 1e-3),
      momentum: true,
    },
    nesterov: {
      name: "Nesterov",
      make: (r, x0, o) => withMomentum(r, x0, o, true),
      lr: rates(1, 1e-3),
      momentum: true,
    },
    lookahead: {
      name: "Nesterov, looking ahead",
      make: lookahead,
      lr: rates(1, 1e-3),
      momentum: true,
    },
    adagrad: { name: "Adagrad", make: adagrad, lr: rates(1, 1), momentum: false },
    rmsprop: { name: "RMSprop", make: rmsprop, lr: rates(0.1, 0.01), momentum: false },
    adam: { name: "Adam", make: (r, x0, o) => adam(r, x0, o, 0), lr: rates(0.5, 0.1), momentum: true },
    adamw: {
      name: "AdamW",
      make: (r, x0, o) => adam(r, x0, o, 0.01),
      lr: rates(0.5, 0.1),
      momentum: true,
    },
    newton: { name: "Newton", make: newton, lr: rates(1, 1), momentum: false },
  };

  const missedBy = (f, x) => Math.max(...x.map((at, i) => Math.abs(at - f.goal[i])));

  /**
   * The path of a method to the goal of a function, or of `steps` points: where the gradient was
   * taken, the value and the gradient there. It is `singular` where Newton's method found no step.
   */
  function descend(f, method, { start, lr, momentum, steps }) {
    let x = start.map(f.round);
    const optimizer = methods[method].make(f.round, x, { lr, momentum });
    const path = { points: [], converged: false, singular: false };
    while (path.points.length < steps && !path.converged && !path.singular) {
      if (optimizer.before) x = optimizer.before(x);
      const gradient = f.gradient(x);
      path.points.push({ x, value: f.value(x), gradient });
      path.converged = missedBy(f, x) <= f.near;
      const next = path.converged ? x : optimizer.step(x, gradient, f);
      path.singular = next === null;
      if (next !== null) x = next;
    }
    return path;
  }

  return { methods, descend };
})();
