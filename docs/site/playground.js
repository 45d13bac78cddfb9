"use strict";
// The optimizer playground: inputs, the path that follows from them, a picture and a table.
const playground = (() => {
  const { byId, html, short } = page;
  const kMostKept = 3;  // as many as style.css has colours for
  const kRows = 200;    // of the table at most

  let kept = [];
  let scale = null;
  let shown = null;  // the function and the path of the picture

  const functionNow = () => functions[byId("play-function").value];
  const methodNow = () => optimizers.methods[byId("play-method").value];

  function setting() {
    const f = functionNow(), start = [page.numberIn(byId("play-start-x"))];
    if (f.dimensions === 2) start.push(page.numberIn(byId("play-start-y")));
    const lr = page.numberIn(byId("play-rate")), steps = page.numberIn(byId("play-steps"));
    const momentum = methodNow().momentum ? page.numberIn(byId("play-momentum")) : 0;
    const numbers = [...start, lr, steps, momentum];
    return numbers.includes(null) ? null : { start, lr, momentum, steps };
  }

  const place = (x) => x.map((at, i) => `${"xy"[i]} = ${short(at)}`).join(", ");

  function nameOf(now) {
    const momentum = methodNow().momentum ? `, momentum ${now.momentum}` : "";
    return `${methodNow().name} from ${place(now.start)}, rate ${now.lr}${momentum}`;
  }

  function ending(path) {
    const last = path.points.at(-1), steps = path.points.length;
    const where = `${place(last.x)}, where the function is ${short(last.value)}`;
    if (path.converged) return `it arrives at the minimum after ${steps} steps: ${where}.`;
    if (path.singular) return `after ${steps} steps the second derivatives give no direction: ${where}.`;
    return `it has not arrived after ${steps} steps; it is at ${where}.`;
  }

  // All rows of a short path; of a long one the first twenty, some between, and the last.
  function rowsOf(points) {
    if (points.length <= kRows) return points.map((_, i) => i);
    const stride = Math.ceil(points.length / (kRows - 20));
    return points.map((_, i) => i).filter((i) => i < 20 || i % stride === 0 || i === points.length - 1);
  }

  function fillTable(f, path) {
    const columns = f.dimensions === 1 ? ["x"] : ["x", "y"];
    const heads = ["step", ...columns, "value", ...columns.map((c) => `gradient, ${c}`)];
    byId("play-steps-head").replaceChildren(...heads.map((head) => html("th", { scope: "col" }, head)));
    const shown = rowsOf(path.points);
    byId("play-steps-caption").textContent =
      shown.length < path.points.length
        ? `${shown.length} of ${path.points.length} steps`
        : `All ${path.points.length} steps`;
    byId("play-steps-rows").replaceChildren(...shown.map((i) => {
      const { x, value, gradient } = path.points[i];
      const cells = [...x, value, ...gradient].map((each) => html("td", {}, short(each)));
      return html("tr", {}, html("th", { scope: "row" }, String(i)), ...cells);
    }));
  }

  function showKept() {
    byId("play-kept").replaceChildren(...kept.map(({ name }, i) =>
      html("li", {}, html("span", { class: `swatch kept-${i}`, "aria-hidden": "true" }), name)));
    byId("play-forget").disabled = kept.length === 0;
    byId("play-keep").disabled = kept.length === kMostKept;
  }

  function draw() {
    scale = landscape.draw(shown.f, shown.path, kept.map((each) => each.path));
  }

  function update() {
    const f = functionNow(), now = setting();
    byId("play-start-y-row").hidden = f.dimensions === 1;
    byId("play-momentum-row").hidden = !methodNow().momentum;
    if (now === null) {
      byId("play-said").textContent = "One of the numbers is missing or outside its limits.";
      draw();
      return null;
    }
    const path = optimizers.descend(f, byId("play-method").value, now);
    shown = { f, path };
    draw();
    byId("play-said").textContent = `${nameOf(now)}: ${ending(path)}`;
    byId("play-picture").setAttribute("aria-label",
      `${f.dimensions === 1 ? "The curve" : "Contour lines"} of ${f.name}, and the path. ` +
      "The arrow keys move the start; the table below has the steps.");
    if (byId("play-steps-table").open) fillTable(f, path);
    return { name: nameOf(now), path };
  }

  function setNumber(id, value) {
    byId(id).value = String(value);
    byId(id).dispatchEvent(new Event("input"));
  }

  // The rate that chapter 6 takes for the method on the function.
  function usualRate() {
    setNumber("play-rate", methodNow().lr[byId("play-function").value]);
  }

  function moveStart(x, y) {
    setNumber("play-start-x", Number(x.toFixed(2)));
    if (functionNow().dimensions === 2) setNumber("play-start-y", Number(y.toFixed(2)));
  }

  function changeFunction() {
    const f = functionNow();
    kept = [];
    showKept();
    byId("play-steps").value = String(f.steps);
    usualRate();
    moveStart(f.start[0], f.start[1]);
  }

  function takeClick({ clientX, clientY }) {
    const corner = byId("play-picture").getBoundingClientRect();
    moveStart(...scale.back(clientX - corner.left, clientY - corner.top));
  }

  const kArrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  function takeKey(event) {
    const arrow = kArrows[event.key], f = functionNow();
    if (!arrow || (f.dimensions === 1 && arrow[1] !== 0)) return;
    event.preventDefault();
    const size = ((f.range.x[1] - f.range.x[0]) / 80) * (event.shiftKey ? 5 : 1);
    const [x, y] = [byId("play-start-x").valueAsNumber, byId("play-start-y").valueAsNumber];
    moveStart(x + arrow[0] * size, y + arrow[1] * size);
  }

  function keep() {
    const now = update();
    if (now === null) return;
    kept.push(now);
    showKept();
    update();
  }

  function listen() {
    byId("play-function").addEventListener("change", changeFunction);
    byId("play-method").addEventListener("change", usualRate);
    byId("play-picture").addEventListener("click", takeClick);
    byId("play-picture").addEventListener("keydown", takeKey);
    byId("play-steps-table").addEventListener("toggle", update);
    byId("play-keep").addEventListener("click", keep);
    byId("play-forget").addEventListener("click", () => {
      kept = [];
      showKept();
      update();
    });
  }

  function start() {
    page.choices(byId("play-function"), Object.entries(functions).map(([key, f]) => [key, f.name]));
    page.choices(byId("play-method"), Object.entries(optimizers.methods).map(([key, m]) => [key, m.name]));
    // a chapter that has the playground names its method and its function
    const { method = "momentum", function: first } = byId("playground").dataset;
    byId("play-method").value = method;
    if (first) byId("play-function").value = first;
    const rounded = (x) => Number(x.toPrecision(3));
    page.tie(byId("play-rate-slider"), byId("play-rate"), (p) => rounded(10 ** p), (n) => Math.log10(n), update);
    for (const id of ["play-start-x", "play-start-y", "play-momentum"]) {
      page.tie(byId(`${id}-slider`), byId(id), (p) => p, (n) => n, update);
    }
    byId("play-steps").addEventListener("input", update);
    listen();
    changeFunction();
    new ResizeObserver(update).observe(byId("play-figure"));
  }

  return { start };
})();
