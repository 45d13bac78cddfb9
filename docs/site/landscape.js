"use strict";
// The picture of the playground: a curve or contour lines, and paths on them.
const landscape = (() => {
  const { svg, byId } = page;
  const kMostPoints = 2000;  // of a path's line; more would not be seen
  const kDots = 60;          // first steps, each of which is a dot
  const kFar = 40;           // a path that leaves the picture widens it up to here

  // The part of the plane that is shown. A curve's picture grows with the paths on it.
  function view(f, paths) {
    if (f.dimensions === 2) return { x: f.range.x, y: f.range.y };
    let [low, high] = f.range.x;
    for (const { points } of paths) {
      for (const { x } of points) {
        if (!(Math.abs(x[0]) <= kFar)) continue;
        low = Math.min(low, x[0] - 1);
        high = Math.max(high, x[0] + 1);
      }
    }
    const values = Array.from({ length: 201 }, (_, i) => f.value([low + ((high - low) * i) / 200]));
    const top = Math.max(...values), bottom = Math.min(...values), edge = 0.08 * (top - bottom);
    return { x: [low, high], y: [bottom - edge, top + edge] };
  }

  // Data to pixels and back.
  function scales(picture, { x, y }) {
    const width = picture.clientWidth, height = page.heightFor(width);
    const box = { left: 46, right: width - 12, top: 12, bottom: height - 32 };
    const across = (box.right - box.left) / (x[1] - x[0]), up = (box.bottom - box.top) / (y[1] - y[0]);
    return {
      width,
      height,
      box,
      x: (at) => box.left + (at - x[0]) * across,
      y: (at) => box.bottom - (at - y[0]) * up,
      back: (px, py) => [x[0] + (px - box.left) / across, y[0] + (box.bottom - py) / up],
    };
  }

  const within = (value) => Math.max(-1e5, Math.min(1e5, value));  // pixels that a browser can draw
  const pixel = (value) => within(value).toFixed(1);

  const tick = (at, place) => svg("text", { class: "tick", ...place }, page.short(at));

  function axes(scale, seen) {
    const { box } = scale, marks = [];
    for (const at of page.ticks(...seen.x, Math.max(4, scale.width / 90))) {
      const x = scale.x(at);
      marks.push(svg("line", { class: "grid", x1: x, x2: x, y1: box.top, y2: box.bottom }),
        tick(at, { x, y: box.bottom + 18, "text-anchor": "middle" }));
    }
    for (const at of page.ticks(...seen.y, 6)) {
      const y = scale.y(at);
      marks.push(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y, y2: y }),
        tick(at, { x: box.left - 6, y: y + 4, "text-anchor": "end" }));
    }
    return marks;
  }

  function ground(f, scale, seen) {
    if (f.dimensions === 1) {
      const steps = 600, [low, high] = seen.x;
      const points = Array.from({ length: steps + 1 }, (_, i) => {
        const x = low + ((high - low) * i) / steps;
        return `${pixel(scale.x(x))},${pixel(scale.y(f.value([x])))}`;
      });
      return [svg("polyline", { class: "curve", points: points.join(" ") })];
    }
    return f.levels.map((level, i) => {
      const d = contours.pieces(f, level).map(([a, b]) =>
        `M${pixel(scale.x(a[0]))} ${pixel(scale.y(a[1]))}L${pixel(scale.x(b[0]))} ${pixel(scale.y(b[1]))}`);
      return svg("path", { class: "contour", "stroke-opacity": 0.9 - 0.1 * i, d: d.join("") });
    });
  }

  // Where a point of a path lies in the plane of the picture.
  const place = (f, point) => (f.dimensions === 1 ? [point.x[0], point.value] : point.x);

  function route(f, path, scale, name) {
    const finite = path.points.map((point) => place(f, point)).filter((at) => at.every(Number.isFinite));
    const stride = Math.ceil(finite.length / kMostPoints);
    const thin = finite.filter((_, i) => i < 200 || i % stride === 0 || i === finite.length - 1);
    const spots = thin.map(([x, y]) => [pixel(scale.x(x)), pixel(scale.y(y))]);
    const group = svg("g", { class: name },
      svg("polyline", { class: "route", points: spots.map((spot) => spot.join(",")).join(" ") }),
      ...spots.slice(0, kDots).map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r: 2.5 })));
    if (spots.length > 0) {
      const [cx, cy] = spots[0], [ex, ey] = spots[spots.length - 1];
      group.append(svg("circle", { class: "from", cx, cy, r: 6 }),
        svg("rect", { class: "to", x: ex - 5, y: ey - 5, width: 10, height: 10 }));
    }
    return group;
  }

  function minimum(f, scale) {
    const at = f.dimensions === 1 ? [f.goal[0], f.value(f.goal)] : f.goal;
    const x = scale.x(at[0]), y = scale.y(at[1]);
    return svg("path", { class: "goal", d: `M${x - 7} ${y}H${x + 7}M${x} ${y - 7}V${y + 7}` });
  }

  /** Draws the path and those that were kept; gives the scales, for clicks. */
  function draw(f, path, kept) {
    const picture = byId("play-picture");
    const seen = view(f, [path, ...kept]);
    const scale = scales(picture, seen), { box } = scale;
    picture.setAttribute("viewBox", `0 0 ${scale.width} ${scale.height}`);
    picture.setAttribute("height", String(scale.height));
    const clip = svg("clipPath", { id: "play-clip" },
      svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }));
    const inside = svg("g", { "clip-path": "url(#play-clip)" },
      ...ground(f, scale, seen),
      ...kept.map((other, i) => route(f, other, scale, `path kept kept-${i}`)),
      route(f, path, scale, "path now"),
      minimum(f, scale));
    picture.replaceChildren(clip, ...axes(scale, seen), inside);
    return scale;
  }

  return { draw };
})();
