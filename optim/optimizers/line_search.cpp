#include <algorithm>
#include <cmath>

#include <hero/optim/line_search.h>

namespace hero::optim {

namespace {

// Where the cubic through two points with their slopes is smallest, kept in [low, high].
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const LinePoint& left = a.t <= b.t ? a : b;
  const LinePoint& right = a.t <= b.t ? b : a;
  const double d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0.0)) return (low + high) / 2.0;
  const double d2 = std::sqrt(square);
  const double t = right.t - (right.t - left.t) *
                                 ((right.slope + d2 - d1) / (right.slope - left.slope + 2.0 * d2));
  return std::min(std::max(t, low), high);
}

struct Bracket {
  LinePoint best, other;  // best has the smaller loss
  bool found = false;     // best meets the conditions
  int steps = 0;
};

Bracket ordered(const LinePoint& a, const LinePoint& b, int steps) {
  return a.loss <= b.loss ? Bracket{a, b, false, steps} : Bracket{b, a, false, steps};
}

bool decreases(const LinePoint& p, const LinePoint& start, const StrongWolfeOptions& o) {
  return p.loss <= start.loss + o.decrease * p.t * start.slope;
}

bool is_flat(const LinePoint& p, const LinePoint& start, const StrongWolfeOptions& o) {
  return std::fabs(p.slope) <= -o.curvature * start.slope;
}

// Walks outwards until a minimum lies between two points.
Bracket enclose(const std::function<LinePoint(double)>& look, const LinePoint& start, double first,
                const StrongWolfeOptions& o) {
  LinePoint before = start;
  LinePoint now = look(first);
  for (int steps = 0; steps < o.max_eval; ++steps) {
    if (!decreases(now, start, o) || (steps > 1 && now.loss >= before.loss)) {
      return ordered(before, now, steps);
    }
    if (is_flat(now, start, o)) return {now, now, true, steps};
    if (now.slope >= 0.0) return ordered(before, now, steps);
    const double t = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10.0);
    before = now;
    now = look(t);
  }
  return ordered(start, now, o.max_eval);
}

}  // namespace

LinePoint strong_wolfe(const std::function<LinePoint(double t)>& look, const LinePoint& start,
                       double first, const StrongWolfeOptions& o) {
  Bracket b = enclose(look, start, first, o);
  bool crowded = false;  // the last point lay close to an end
  while (!b.found && b.steps < o.max_eval) {
    const double low = std::min(b.best.t, b.other.t), high = std::max(b.best.t, b.other.t);
    if (high - low < o.least_width) break;
    double t = cubic_minimum(b.best, b.other, low, high);
    // Two points in a row near an end would let the bracket shrink from one side only.
    const double margin = 0.1 * (high - low);
    if (std::min(high - t, t - low) < margin) {
      if (crowded || t >= high || t <= low) {
        t = std::fabs(t - high) < std::fabs(t - low) ? high - margin : low + margin;
        crowded = false;
      } else {
        crowded = true;
      }
    } else {
      crowded = false;
    }
    const LinePoint now = look(t);
    ++b.steps;
    if (!decreases(now, start, o) || now.loss >= b.best.loss) {
      b = ordered(b.best, now, b.steps);
      continue;
    }
    b.found = is_flat(now, start, o);
    if (!b.found && now.slope * (b.other.t - b.best.t) >= 0.0) b.other = b.best;
    b.best = now;
  }
  return b.best;
}

}  // namespace hero::optim
