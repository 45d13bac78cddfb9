"use strict";
// The collectives' inputs and buttons, and the table of what each rank holds.
const exchange = (() => {
  const { byId, html } = page;
  let played = null, at = 0;

  const list = (parts) => (parts.length === 1 ? `part ${parts[0]}` : "all parts");

  function said() {
    const name = collectives.kinds[byId("collective-kind").value].name, rounds = played.rounds.length;
    const most = Math.max(...played.sent[at]);
    if (at === 0) return `${name}: before the first of ${rounds} rounds.`;
    const messages = played.rounds[at - 1].map(({ from, to, parts, how }) =>
      `rank ${from} sends ${list(parts)} to rank ${to}${how === "add" ? ", which adds" : ""}`);
    const end = at === rounds ? ` That was all: a rank has sent ${most} bytes at most.` : "";
    return `${name}, round ${at} of ${rounds}: ${messages.join("; ")}.${end}`;
  }

  function draw() {
    const N = played.before.length, messages = at > 0 ? played.rounds[at - 1] : [];
    const goes = (r, part, now) => messages.some((m) => m.from === r && m.now === now && m.parts.includes(part));
    const came = (r, place) => messages.some((m) => m.to === r && m.places.includes(place));
    const head = [html("th", { scope: "col" }, ""), html("th", { scope: "col", colspan: String(N) }, "before"),
      html("th", { scope: "col", colspan: String(N), class: "result" }, at === played.rounds.length ? "after" : "so far"),
      html("th", { scope: "col" }, "bytes sent")];
    byId("collective-head").replaceChildren(...head);
    byId("collective-rows").replaceChildren(...played.before.map((x, r) => {
      const inputs = x.map((value, i) =>
        html("td", { class: goes(r, i, false) ? "cell sent" : "cell" }, String(value)));
      const state = played.states[at][r], first = at > 0 ? played.states[at - 1][r] : [];
      const outputs = x.map((_, i) => {
        const value = i < state.length ? state[i] : undefined;
        const classes = ["cell", ...(i === 0 ? ["result"] : [])];
        if (came(r, i)) classes.push("came");
        else if (goes(r, i, true) && first[i] !== undefined) classes.push("sent");
        return html("td", { class: classes.join(" ") }, value === undefined || value === null ? "" : String(value));
      });
      return html("tr", {}, html("th", { scope: "row" }, `rank ${r}`), ...inputs, ...outputs,
        html("td", {}, String(played.sent[at][r])));
    }));
    byId("collective-said").textContent = said();
    byId("collective-back").disabled = at === 0;
    byId("collective-next").disabled = at === played.rounds.length;
  }

  function begin() {
    const N = page.numberIn(byId("collective-ranks"));
    if (N === null) {
      byId("collective-said").textContent = "The number of ranks is missing or outside its limits.";
      return;
    }
    played = collectives.play(byId("collective-kind").value, N);
    at = 0;
    draw();
  }

  function go(to) {
    at = Math.max(0, Math.min(to, played.rounds.length));
    draw();
  }

  function start() {
    page.choices(byId("collective-kind"), Object.entries(collectives.kinds).map(([key, { name }]) => [key, name]));
    byId("collective-kind").value = "all_reduce";
    byId("collective-kind").addEventListener("change", begin);
    page.tie(byId("collective-ranks-slider"), byId("collective-ranks"), (p) => p, (n) => n, begin);
    byId("collective-back").addEventListener("click", () => go(at - 1));
    byId("collective-next").addEventListener("click", () => go(at + 1));
    byId("collective-end").addEventListener("click", () => go(played.rounds.length));
    begin();
  }

  return { start };
})();
