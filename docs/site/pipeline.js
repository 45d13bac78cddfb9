"use strict";
// The pipeline's inputs, a picture of who does what when, and a table of all schedules.
const pipeline = (() => {
  const { byId, html, svg } = page;
  const kRow = 26;  // pixels of a rank

  let shown = null;

  function setting() {
    const now = {
      ranks: page.numberIn(byId("pipeline-ranks")),
      microBatches: page.numberIn(byId("pipeline-micro")),
      chunks: page.numberIn(byId("pipeline-chunks")),
      backward: page.numberIn(byId("pipeline-backward")),
    };
    return Object.values(now).includes(null) ? null : now;
  }

  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const most = (played) => Math.max(...played.waiting);
  const count = (n, one, more) => `${n} ${n === 1 ? one : more}`;

  function sentence(key, now, played) {
    return `${schedules.kinds[key].name}, ${count(now.ranks, "rank", "ranks")}, ` +
      `${count(now.microBatches, "micro-batch", "micro-batches")}: ` +
      `a step takes ${page.short(played.time)} times a forward pass, and a rank is idle for ${percent(played.idle)} of it. ` +
      `Up to ${most(played)} forward passes wait for their backward pass on a rank.`;
  }

  function draw({ key, played }) {
    const picture = byId("pipeline-picture");
    const width = picture.clientWidth, left = 52, right = 12;
    const height = 14 + kRow * played.ranks.length + 26;
    const across = (width - left - right) / played.time;
    const x = (time) => left + time * across;
    const bottom = 10 + kRow * played.ranks.length;
    const marks = page.ticks(0, played.time, Math.max(3, width / 90)).map((tick) => svg("g", {},
      svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: bottom }),
      svg("text", { class: "tick", x: x(tick), y: bottom + 18, "text-anchor": "middle" }, page.short(tick))));
    const rows = played.ranks.map((row, rank) => {
      const y = 10 + kRow * rank;
      const name = svg("text", { class: "tick", x: left - 6, y: y + 16, "text-anchor": "end" }, `rank ${rank}`);
      const boxes = row.map(({ kind, chunk, micro, start, end }) => {
        const wide = (end - start) * across;
        const box = svg("rect", {
          class: `pass-${kind}${chunk % 2 ? " odd" : ""}`, x: x(start), width: Math.max(wide - 1, 0.5), y, height: kRow - 4,
        });
        const text = String(micro);
        if (wide < 8 * text.length + 4) return box;
        return svg("g", {}, box,
          svg("text", { class: "pass-name", x: x((start + end) / 2), y: y + 16, "text-anchor": "middle" }, text));
      });
      return svg("g", {}, name, ...boxes);
    });
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", String(height));
    picture.replaceChildren(...marks, ...rows);
    picture.setAttribute("aria-label",
      `The passes of ${schedules.kinds[key].name} on a time axis, a row for each rank; the sentence below has the numbers.`);
  }

  function fillTable(now) {
    byId("pipeline-rows").replaceChildren(...Object.entries(schedules.kinds).map(([key, { name }]) => {
      const played = schedules.play(key, now);
      const attributes = key === byId("pipeline-schedule").value ? { "aria-current": "true" } : {};
      const cells = [page.short(played.time), percent(played.idle), String(most(played))];
      return html("tr", attributes, html("th", { scope: "row" }, name), ...cells.map((cell) => html("td", {}, cell)));
    }));
  }

  // While a number is not good, the picture and the table stay those of the numbers before.
  function update() {
    const key = byId("pipeline-schedule").value, now = setting();
    byId("pipeline-chunks-row").hidden = !schedules.kinds[key].chunks;
    if (now === null) {
      byId("pipeline-said").textContent = "One of the numbers is missing or outside its limits.";
    } else {
      shown = { key, played: schedules.play(key, now) };
      byId("pipeline-said").textContent = sentence(key, now, shown.played);
      fillTable(now);
    }
    if (shown) draw(shown);
  }

  function start() {
    page.choices(byId("pipeline-schedule"), Object.entries(schedules.kinds).map(([key, { name }]) => [key, name]));
    const { schedule = "1f1b" } = byId("pipeline").dataset;
    byId("pipeline-schedule").value = schedule;
    for (const id of ["pipeline-ranks", "pipeline-micro", "pipeline-chunks", "pipeline-backward"]) {
      page.tie(byId(`${id}-slider`), byId(id), (p) => p, (n) => n, update);
    }
    byId("pipeline-schedule").addEventListener("change", update);
    new ResizeObserver(update).observe(byId("pipeline-figure"));
    update();
  }

  return { start };
})();
