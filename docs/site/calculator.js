"use strict";
// The memory calculator: inputs, a sentence, stacked bars and a table, all from memory.js.
const calculator = (() => {
  const { byId, html, svg } = page;
  const kOwn = "own";  // the value of a select whose inputs hold numbers that it does not offer

  let shown = null;  // the numbers of the picture and the table

  function setting() {
    const parameters = page.numberIn(byId("memory-parameters"));
    const ranks = page.numberIn(byId("memory-ranks"));
    const bytes = {
      parameters: page.numberIn(byId("memory-parameter-bytes")),
      gradients: page.numberIn(byId("memory-gradient-bytes")),
      optimizer: page.numberIn(byId("memory-optimizer-bytes")),
    };
    const numbers = [parameters, ranks, ...Object.values(bytes)];
    return numbers.includes(null) ? null : { parameters, ranks, bytes };
  }

  const stage = () => Number(document.querySelector("input[name=stage]:checked").value);

  // The selects show what the inputs hold, or that it is the reader's own choice.
  function showChoices({ parameters, bytes }) {
    const model = memory.models.findIndex((m) => m.parameters === parameters);
    byId("memory-model").value = model < 0 ? kOwn : String(model);
    const same = (p) => memory.kinds.every((kind) => p.bytes[kind] === bytes[kind]);
    const precision = memory.precisions.findIndex(same);
    byId("memory-precision").value = precision < 0 ? kOwn : String(precision);
  }

  const list = (words) =>
    words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

  function sentence(now) {
    const together = memory.held(stage(), now).together;
    const fits = memory.devices.filter((device) => together <= device).map((device) => `${device / 1e9} GB`);
    const where = fits.length === 0 ? "more than 80 GB" : `within GPUs of ${list(fits)}`;
    return (
      `${memory.stages[stage()].name} on ${now.ranks} ${now.ranks === 1 ? "rank" : "ranks"}: ` +
      `${page.bytes(together)} per rank, ${where}, before activations. ` +
      `With 32 GB per rank, ${page.count(memory.largest(stage(), 32e9, now))} parameters would fit.`
    );
  }

  function fillTable(now) {
    const rows = memory.stages.map(({ name }, i) => {
      const rank = memory.held(i, now);
      const cells = [...memory.kinds, "together"].map((kind) => html("td", {}, page.bytes(rank[kind])));
      const fit = memory.devices.map((device) =>
        html("td", {}, page.count(memory.largest(i, device, now))));
      const attributes = i === stage() ? { "aria-current": "true" } : {};
      return html("tr", attributes, html("th", { scope: "row" }, name), ...cells, ...fit);
    });
    byId("memory-rows").replaceChildren(...rows);
  }

  // What the picture measures: the width it is given, and bytes to pixels.
  function frame(now) {
    const width = byId("memory-picture").clientWidth, height = page.heightFor(width);
    const box = { left: 58, top: 24, right: width - 70, bottom: height - 44 };
    const top = memory.held(0, now).together * 1.08 || 1;
    box.y = (bytes) => box.bottom - ((box.bottom - box.top) * bytes) / top;
    box.most = top;
    return { width, height, box };
  }

  function axis(box) {
    const [unit, name] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]].find(
      ([size]) => box.most >= size) || [1, "B"];
    const y = (tick) => box.y(tick * unit);
    const marks = page.ticks(0, box.most / unit, 5).map((tick) =>
      svg("g", {},
        svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }),
        svg("text", { class: "tick", x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" },
          page.short(tick))));
    const label = svg("text", { class: "tick", x: box.left - 6, y: 12, "text-anchor": "end" }, name);
    return [...marks, label];
  }

  // A line for each device that the picture reaches. Lines that lie together share one label.
  function limits(box) {
    const groups = [];
    for (const device of memory.devices.filter((each) => each <= box.most)) {
      const last = groups.at(-1);
      if (last && box.y(last.at(-1)) - box.y(device) < 13) last.push(device);
      else groups.push([device]);
    }
    return groups.map((group) => {
      const lines = group.map((device) => {
        const y = box.y(device);
        return svg("line", { class: "limit", x1: box.left, x2: box.right, y1: y, y2: y });
      });
      const name = [...new Set([group[0], group.at(-1)])].map((device) => device / 1e9).join("–");
      const label = { class: "limit-label", x: box.right + 5, y: box.y(group[0]) + 4 };
      return svg("g", {}, ...lines, svg("text", label, `${name} GB`));
    });
  }

  function bar(i, now, box) {
    const slot = (box.right - box.left) / memory.stages.length;
    const x = box.left + slot * (i + 0.16), width = slot * 0.68;
    const rank = memory.held(i, now);
    let below = 0;
    const pieces = memory.kinds.map((kind) => {
      const from = below;
      below += rank[kind];
      const height = box.y(from) - box.y(below);
      return svg("rect", { class: kind, x, width, y: box.y(below), height });
    });
    const middle = x + width / 2;
    const number = svg("text", { class: "bar-number", x: middle, y: box.y(below) - 6 }, page.bytes(below));
    const name = svg("text", { class: "bar-name", x: middle, y: box.bottom + 18 }, memory.stages[i].name);
    const group = svg("g", { class: i === stage() ? "bar chosen" : "bar" }, ...pieces);
    if (i === stage()) {
      const y = box.y(below) - 3;
      const place = { x: x - 3, width: width + 6, y, height: box.bottom + 3 - y };
      group.append(svg("rect", { class: "outline", ...place }));
    }
    group.append(number, name);
    group.addEventListener("click", () => {
      document.querySelectorAll("input[name=stage]")[i].checked = true;
      update();
    });
    return group;
  }

  function draw(now) {
    const picture = byId("memory-picture");
    const { width, height, box } = frame(now);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", String(height));
    picture.replaceChildren(...axis(box), ...memory.stages.map((_, i) => bar(i, now, box)), ...limits(box));
    const levels = memory.stages.map(({ name }, i) => `${name} ${page.bytes(memory.held(i, now).together)}`);
    picture.setAttribute("aria-label", `Bytes of one rank, stacked bars: ${list(levels)}.`);
  }

  // While a number is not good, the picture and the table stay those of the numbers before.
  function update() {
    const now = setting();
    byId("memory-said").textContent =
      now === null ? "One of the numbers is missing or outside its limits." : sentence(now);
    if (now !== null) {
      shown = now;
      showChoices(now);
      byId("memory-parameters-short").textContent = page.count(now.parameters);
    }
    fillTable(shown);
    draw(shown);
  }

  const rounded = (x) => Number(x.toPrecision(3));

  function start() {
    const own = [kOwn, "your own numbers"];
    page.choices(byId("memory-model"), [...memory.models.map((m, i) => [String(i), m.name]), own]);
    page.choices(byId("memory-precision"), [...memory.precisions.map((p, i) => [String(i), p.name]), own]);
    const shown = [
      page.tie(byId("memory-parameters-slider"), byId("memory-parameters"),
        (p) => rounded(10 ** p), (n) => Math.log10(n), update),
      page.tie(byId("memory-ranks-slider"), byId("memory-ranks"), (p) => 2 ** p, (n) => Math.log2(n), update),
      page.tie(byId("memory-optimizer-bytes-slider"), byId("memory-optimizer-bytes"), (p) => p, (n) => n, update),
    ];
    const refresh = () => {
      shown.forEach((show) => show());
      update();
    };
    byId("memory-model").addEventListener("change", ({ target }) => {
      if (target.value !== kOwn) byId("memory-parameters").value = String(memory.models[target.value].parameters);
      refresh();
    });
    byId("memory-precision").addEventListener("change", ({ target }) => {
      if (target.value !== kOwn) {
        const { bytes } = memory.precisions[target.value];
        byId("memory-parameter-bytes").value = String(bytes.parameters);
        byId("memory-gradient-bytes").value = String(bytes.gradients);
        byId("memory-optimizer-bytes").value = String(bytes.optimizer);
      }
      refresh();
    });
    for (const id of ["memory-parameter-bytes", "memory-gradient-bytes"]) byId(id).addEventListener("input", update);
    document.querySelectorAll("input[name=stage]").forEach((radio) =>
      radio.addEventListener("change", update));
    new ResizeObserver(update).observe(byId("memory-figure"));
    update();
  }

  return { start };
})();
