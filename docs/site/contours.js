"use strict";
// Lines of equal value of a function of two variables, by marching squares: within a cell of a grid
// a line runs straight between the sides whose ends lie on different sides of the level.
const contours = (() => {
  const kCells = 160;
  const known = new Map();  // lines of a function once found, by level

  // The corners of a cell and its sides, in order around it.
  const kSides = [[0, 1], [1, 2], [2, 3], [3, 0]];

  function crossings(corners, level) {
    const points = [];
    for (const [a, b] of kSides) {
      const [p, q] = [corners[a], corners[b]];
      if (p.value < level === q.value < level) continue;
      const t = (level - p.value) / (q.value - p.value);
      points.push([p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)]);
    }
    return points;
  }

  function found(f, level) {
    const [x0, x1] = f.range.x, [y0, y1] = f.range.y;
    const at = (i, j) => {
      const x = x0 + ((x1 - x0) * i) / kCells, y = y0 + ((y1 - y0) * j) / kCells;
      return { x, y, value: f.value([x, y]) };
    };
    const lines = [];
    for (let i = 0; i < kCells; ++i) {
      for (let j = 0; j < kCells; ++j) {
        const ends = crossings([at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)], level);
        for (let k = 0; k + 1 < ends.length; k += 2) lines.push([ends[k], ends[k + 1]]);
      }
    }
    return lines;
  }

  /** Pieces [[x, y], [x, y]] of the line of one level over the range of a function. */
  function pieces(f, level) {
    if (!known.has(f)) known.set(f, new Map());
    const levels = known.get(f);
    if (!levels.has(level)) levels.set(level, found(f, level));
    return levels.get(level);
  }

  return { pieces };
})();
