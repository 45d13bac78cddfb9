"use strict";
// The timeline of a step of FSDP: inputs, a lane of computing and one of messages, and a table of other choices.
const fsdp = (() => {
  const { byId, html, svg } = page;
  const kRow = 44;  // pixels of a lane
  const kNumbers = ["units", "parameters", "tokens", "ranks", "speed", "bandwidth"];
  const choices = [
    { name: "no prefetch", prefetch: 0, reshard: true },
    { name: "prefetch 1", prefetch: 1, reshard: true },
    { name: "prefetch 2", prefetch: 2, reshard: true },
    { name: "prefetch 1, keep until backward", prefetch: 1, reshard: false },
  ];

  let shown = null;

  function setting() {
    const now = Object.fromEntries(kNumbers.map((name) => [name, page.numberIn(byId(`fsdp-${name}`))]));
    if (Object.values(now).includes(null)) return null;
    return { ...now, parameters: 1e6 * now.parameters, speed: 1e12 * now.speed, bandwidth: 1e9 * now.bandwidth };
  }

  const milliseconds = (seconds) => `${page.short(+(1e3 * seconds).toPrecision(3))} ms`;
  const whole = (n) => Math.round(n).toLocaleString("en-US");

  function sentence(now, played) {
    const enough = steps.tokensToHide(now);
    const hidden = now.tokens > enough
      ? "is hidden, but for the first gathers and the last reduction"
      : "is longer than what is computed meanwhile";
    return `A step takes ${milliseconds(played.time)}: the device computes for ${milliseconds(played.time - played.waits)} ` +
      `and waits for ${milliseconds(played.waits)}. At most ${played.whole} of ${now.units} units are in memory at once. ` +
      `With prefetching, a message hides behind a unit that computes from ${whole(enough)} tokens on; ` +
      `with ${whole(now.tokens)} a message ${hidden}.`;
  }

  function draw(played) {
    const picture = byId("fsdp-picture");
    const width = picture.clientWidth, left = 76, right = 12, height = 2 * kRow + 40, bottom = 10 + 2 * kRow;
    const across = (width - left - right) / (played.time * 1e3);
    const x = (seconds) => left + seconds * 1e3 * across;
    const marks = page.ticks(0, played.time * 1e3, Math.max(3, width / 100)).map((tick) => svg("g", {},
      svg("line", { class: "grid", x1: left + tick * across, x2: left + tick * across, y1: 6, y2: bottom }),
      svg("text", { class: "tick", x: left + tick * across, y: bottom + 18, "text-anchor": "middle" }, page.short(tick))));
    const lane = (name, spans, row) => svg("g", {},
      svg("text", { class: "tick", x: left - 6, y: 10 + kRow * row + 24, "text-anchor": "end" }, name),
      ...spans.map(({ what, unit, start, end }) => {
        const wide = x(end) - x(start);
        const box = svg("rect", {
          class: `step-${what}`, x: x(start), width: Math.max(wide - 1, 0.5), y: 10 + kRow * row, height: kRow - 8,
        });
        const text = String(unit);
        if (wide < 8 * text.length + 4) return box;
        return svg("g", {}, box, svg("text",
          { class: "pass-name", x: (x(start) + x(end)) / 2, y: 10 + kRow * row + 23, "text-anchor": "middle" }, text));
      }));
    const unit = svg("text", { class: "tick", x: left - 6, y: bottom + 18, "text-anchor": "end" }, "ms");
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", String(height));
    picture.replaceChildren(...marks, unit, lane("computes", played.computing, 0), lane("link", played.sending, 1));
    picture.setAttribute("aria-label", "What the device computes, and which messages are on its link, on a time axis; " +
      "the sentence below has the numbers.");
  }

  function fillTable(now, chosen) {
    byId("fsdp-rows").replaceChildren(...choices.map((choice, i) => {
      const played = steps.play({ ...now, ...choice });
      const cells = [milliseconds(played.time), milliseconds(played.waits), String(played.whole)];
      return html("tr", i === chosen ? { "aria-current": "true" } : {}, html("th", { scope: "row" }, choice.name),
        ...cells.map((cell) => html("td", {}, cell)));
    }));
  }

  // While a number is not good, the picture and the table stay those of the numbers before.
  function update() {
    const now = setting(), chosen = Number(byId("fsdp-choice").value);
    if (now === null) {
      byId("fsdp-said").textContent = "One of the numbers is missing or outside its limits.";
    } else {
      shown = steps.play({ ...now, ...choices[chosen] });
      byId("fsdp-said").textContent = sentence(now, shown);
      fillTable(now, chosen);
    }
    if (shown) draw(shown);
  }

  function start() {
    page.choices(byId("fsdp-choice"), choices.map(({ name }, i) => [String(i), name]));
    byId("fsdp-choice").value = "1";
    const rounded = (x) => Number(x.toPrecision(3));
    const tie = (name, of, at) => page.tie(byId(`fsdp-${name}-slider`), byId(`fsdp-${name}`), of, at, update);
    tie("units", (p) => p, (n) => n);
    tie("tokens", (p) => Math.round(2 ** p), (n) => Math.log2(n));
    tie("ranks", (p) => 2 ** p, (n) => Math.log2(n));
    for (const name of ["parameters", "speed", "bandwidth"]) tie(name, (p) => rounded(10 ** p), (n) => Math.log10(n));
    byId("fsdp-choice").addEventListener("change", update);
    new ResizeObserver(update).observe(byId("fsdp-figure"));
    update();
  }

  return { start };
})();
