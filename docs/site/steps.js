"use strict";
// A step of FSDP on one rank: the order in which dist::fully_shard gathers, uses, reduces and frees its units, and the time of
// a step by a model of a device and a link. Tests compare the order and the bytes with the library's.
const steps = (() => {
  /**
   * What happens in a step, [what, unit], from the second step on, when the order of the units is known: `units` units that
   * run one after another, beside the root's, `prefetch` of which are gathered ahead; with `reshard` each is freed after
   * forward and gathered again for backward.
   */
  function events({ units, prefetch, reshard }) {
    const list = [["gather", "root"], ["use", "root"]];
    // Gathers what is missing of the first `many` in the order of use.
    const ahead = (order) => {
      let asked = 0;
      return (many) => {
        for (; asked < Math.min(many, units); ++asked) list.push(["gather", order(asked)]);
      };
    };
    const forward = ahead((i) => i);
    for (let i = 0; i < units; ++i) {
      forward(i + Math.max(1, prefetch));
      list.push(["use", i]);
      forward(i + 1 + prefetch);
      list.push(["forward", i]);
      if (reshard) list.push(["free", i]);
    }
    list.push(["use", "root"]);
    const backward = reshard ? ahead((i) => units - 1 - i) : () => {};
    for (let i = 0; i < units; ++i) {
      const unit = units - 1 - i;
      backward(i + Math.max(1, prefetch));
      list.push(["use", unit]);
      backward(i + 1 + prefetch);
      list.push(["backward", unit]);
      if (i > 0) list.push(["reduced", unit + 1]);
      list.push(["reduce", unit], ["free", unit]);
    }
    list.push(["reduced", 0], ["reduce", "root"], ["reduced", "root"], ["free", "root"]);
    return list;
  }

  /** Bytes that a rank sends to gather or to reduce a unit: all parts but one. */
  const message = (parameters, ranks, width) => (width * parameters * (ranks - 1)) / ranks;

  /**
   * The step on a device of `speed` operations per second and a link by which `bandwidth` bytes per second leave it, in
   * seconds: forward takes two operations for each parameter and token, backward four, and each number has two bytes. One
   * message is on the link at a time, and the root's unit is left out.
   * {computing, sending: [{what, unit, start, end}], time, waits, whole: the most units that were gathered at once}
   */
  function play(setting) {
    const { parameters, tokens, ranks, speed, bandwidth } = setting;
    const sends = message(parameters, ranks, 2) / bandwidth;
    const takes = { forward: (2 * parameters * tokens) / speed, backward: (4 * parameters * tokens) / speed };
    const computing = [], sending = [], came = new Map(), held = new Set();
    let now = 0, free = 0, waits = 0, whole = 0;
    const wait = (key) => {
      const until = came.get(key) ?? 0;
      waits += Math.max(0, until - now);
      now = Math.max(now, until);
    };
    for (const [what, unit] of events(setting)) {
      if (unit === "root") continue;
      if (what === "gather" || what === "reduce") {
        const start = Math.max(now, free);
        free = start + sends;
        sending.push({ what, unit, start, end: free });
        came.set(`${what} ${unit}`, free);
      }
      if (what === "gather") held.add(unit);
      if (what === "use") wait(`gather ${unit}`);
      if (what === "reduced") wait(`reduce ${unit}`);
      if (what === "free") held.delete(unit);
      if (what in takes) {
        computing.push({ what, unit, start: now, end: now + takes[what] });
        now += takes[what];
      }
      whole = Math.max(whole, held.size);
    }
    return { computing, sending, time: now, waits, whole };
  }

  /** With more tokens than this, each message is hidden by the unit that computes meanwhile: C / W of all parts but one. */
  const tokensToHide = ({ ranks, speed, bandwidth }) => ((speed / bandwidth) * (ranks - 1)) / ranks;

  return { events, message, play, tokensToHide };
})();
