"use strict";
// The functions that the tutorials make small. Each says how its arithmetic rounds (`round`), and
// computes values and derivatives in the order in which Hero's engine does, rounding after every
// operation: in float32 a sum, product, quotient or root of doubles that is rounded once is the
// one of float32, so the paths here are those of the library, bit for bit.
const functions = (() => {
  const float32 = Math.fround;
  const float64 = (x) => x;

  // sin(x) + x^2 / 10 in either precision: y = sin x + x x / 10, backward g cos x + (g / 10) (2 x).
  const valley = (round) => ({
    round,
    dimensions: 1,
    value: ([x]) => round(round(Math.sin(x)) + round(round(x * x) / 10)),
    gradient: ([x]) => [round(round(Math.cos(x)) + round(round(0.1) * (2 * x)))],
    hessian: ([x]) => [[round(round(0.2) - round(Math.sin(x)))]],
    range: { x: [-10, 10] },
    goal: [float32(-1.30644)],
    near: float32(1e-6),
  });

  // (1 - x)^2 + 100 (y - x^2)^2, Rosenbrock's function of 1960. Its minimum lies at (1, 1).
  const canyon = {
    round: float64,
    dimensions: 2,
    value: ([x, y]) => (1 - x) * (1 - x) + 100 * ((y - x * x) * (y - x * x)),
    gradient: ([x, y]) => {
      const along = 100 * ((y - x * x) * 2);
      return [-((1 - x) * 2) - along * (x * 2), along];
    },
    hessian: ([x, y]) => [[2 - 400 * (y - x * x) + 800 * (x * x), -400 * x], [-400 * x, 200]],
    range: { x: [-2, 2], y: [-1, 3] },
    levels: [0.5, 2, 8, 32, 128, 512],
    goal: [1, 1],
    near: 1e-3,
  };

  return {
    valley: { ...valley(float32), name: "sin x + x²/10 (chapters 3–6)", start: [-8], steps: 500 },
    newton: { ...valley(float64), name: "sin x + x²/10, float64", start: [-5], steps: 12 },
    canyon: { ...canyon, name: "Rosenbrock's canyon (chapter 6)", start: [-1.5, 2], steps: 10000 },
  };
})();
