"use strict";
// Schedules of a pipeline as dist/pipeline_schedule.h has them, and the time of a step by them: p ranks, m micro-batches, v chunks on
// each rank. Chunk c of rank r is stage c p + r of the model. A test compares the actions with the library's.
const schedules = (() => {
  // GPipe: Huang et al., arXiv 1811.06965. 1F1B: Narayanan et al., arXiv 2006.09503. Interleaved: arXiv 2104.04473.
  // Zero bubble, ZB-H1: Qi et al., arXiv 2401.10241.
  const kinds = {
    gpipe: { name: "GPipe", chunks: false },
    "1f1b": { name: "1F1B", chunks: false },
    interleaved: { name: "Interleaved stages", chunks: true },
    zero_bubble: { name: "Zero bubble", chunks: false },
  };

  // The passes of one kind, in their order: rounds of p micro-batches go through all chunks.
  function passes(kind, chunks, ranks, microBatches) {
    const list = [];
    for (let first = 0; first < microBatches; first += ranks) {
      const last = Math.min(first + ranks, microBatches);
      for (let i = 0; i < chunks; ++i) {
        const chunk = kind === "F" ? i : chunks - 1 - i;
        for (let micro = first; micro < last; ++micro) list.push({ kind, chunk, micro });
      }
    }
    return list;
  }

  // So many forwards, then one forward and one backward in turn, then the backwards that are left.
  function alternate(forwards, backwards, ahead) {
    const first = Math.min(ahead, forwards.length), list = forwards.slice(0, first);
    backwards.forEach((backward, i) => {
      if (first + i < forwards.length) list.push(forwards[first + i]);
      list.push(backward);
    });
    return list;
  }

  // Gradients of weights `behind` backwards after their own.
  function withWeights(actions, behind) {
    const list = [], waiting = [];
    for (const action of actions) {
      list.push(action);
      if (action.kind !== "B") continue;
      waiting.push({ ...action, kind: "W" });
      if (waiting.length > behind) list.push(waiting.shift());
    }
    return [...list, ...waiting];
  }

  /** What a rank does in a step, in order: {kind: "F", "B" or "W", chunk, micro}. */
  function actions(key, chunks, rank, ranks, microBatches) {
    const rounds = key === "interleaved", v = rounds ? chunks : 1;
    const full = rounds ? Math.ceil(microBatches / ranks) * ranks : microBatches;
    const behind = ranks - 1 - rank;
    let ahead = full;
    if (key === "1f1b" || key === "zero_bubble") ahead = behind;
    if (rounds) ahead = 2 * behind + (v - 1) * ranks;
    const list = alternate(passes("F", v, ranks, full), passes("B", v, ranks, full), ahead)
      .filter(({ micro }) => micro < microBatches);
    return key === "zero_bubble" ? withWeights(list, rank) : list;
  }

  /**
   * A step in which a forward pass through all that a rank has takes one unit, and the backward pass `backward` units, half
   * of it for the gradients of weights where these are actions of their own. What a message takes is left out.
   * {ranks: [[{kind, chunk, micro, start, end}]], time, idle: the share of all ranks' time without work,
   * waiting: for each rank, how many forward passes at most wait for their backward pass}
   */
  function play(key, { ranks, microBatches, chunks, backward }) {
    const v = kinds[key].chunks ? chunks : 1, last = v * ranks - 1;
    const takes = key === "zero_bubble" ? { F: 1, B: backward / 2, W: backward / 2 } : { F: 1 / v, B: backward / v };
    const lists = Array.from({ length: ranks }, (_, rank) => actions(key, v, rank, ranks, microBatches));
    const ends = new Map(), free = lists.map(() => 0), at = lists.map(() => 0), rows = lists.map(() => []);
    const endOf = (kind, stage, micro) => ends.get(`${kind} ${stage} ${micro}`);
    for (let moved = true; moved;) {
      moved = false;
      for (let rank = 0; rank < ranks; ++rank) {
        for (; at[rank] < lists[rank].length; ++at[rank]) {
          const { kind, chunk, micro } = lists[rank][at[rank]], stage = chunk * ranks + rank;
          let ready = 0;
          if (kind === "F" && stage > 0) ready = endOf("F", stage - 1, micro);
          if (kind === "B") ready = stage < last ? endOf("B", stage + 1, micro) : endOf("F", stage, micro);
          if (ready === undefined) break;
          const start = Math.max(free[rank], ready), end = start + takes[kind];
          ends.set(`${kind} ${stage} ${micro}`, end);
          free[rank] = end;
          rows[rank].push({ kind, chunk, micro, start, end });
          moved = true;
        }
      }
    }
    const time = Math.max(...free);
    const idle = 1 - (microBatches * (1 + backward)) / time;
    const waiting = lists.map((list) => {
      let now = 0, most = 0;
      for (const { kind } of list) {
        now += (kind === "F") - (kind === "B");
        most = Math.max(most, now);
      }
      return most;
    });
    return { ranks: rows, time, idle, waiting };
  }

  return { kinds, actions, play };
})();
