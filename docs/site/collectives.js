"use strict";
// The collectives of chapter 10, message by message: rank r of N holds the numbers 10 r, 10 r + 1, ..., N of them, each of four
// bytes. A test compares results and bytes with the library's; the ring is what NCCL and MPI do with large arrays, and sends as
// many bytes.
const collectives = (() => {
  const kBytes = 4;
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  /** For each collective its name, and rounds(step): what it does with step.send(). */
  const kinds = {
    broadcast: {
      name: "broadcast",
      begin: (x, r) => (r === 0 ? [...x] : x.map(() => null)),
      rounds: ({ N, round, send }) => range(N - 1).forEach((k) => round(() => send(0, k + 1, range(N), range(N)))),
    },
    reduce: {
      name: "reduce",
      begin: (x) => [...x],
      rounds: ({ N, round, send }) => range(N - 1).forEach((k) => round(() => send(k + 1, 0, range(N), range(N), "add"))),
    },
    scatter: {
      name: "scatter",
      begin: (x, r) => [r === 0 ? x[0] : null],
      rounds: ({ N, round, send }) => range(N - 1).forEach((k) => round(() => send(0, k + 1, [k + 1], [0]))),
    },
    gather: {
      name: "gather",
      begin: (x, r) => (r === 0 ? x.map((each, i) => (i === 0 ? each : null)) : []),
      rounds: ({ N, round, send }) => range(N - 1).forEach((k) => round(() => send(k + 1, 0, [0], [k + 1]))),
    },
    reduce_scatter: { name: "reduce_scatter", begin: (x, r) => [x[r]], rounds: (step) => reduceParts(step, () => 0) },
    all_gather: {
      name: "all_gather",
      begin: (x, r) => x.map((_, i) => (i === r ? x[0] : null)),
      rounds: (step) => gatherParts(step),
    },
    all_reduce: {
      name: "all_reduce",
      begin: (x, r) => x.map((each, i) => (i === r ? each : null)),
      rounds: (step) => {
        reduceParts(step, (to) => to);
        gatherParts(step);
      },
    },
    ring: {
      name: "all_reduce by a ring",
      begin: (x) => [...x],
      rounds: ({ N, round, sendNow }) => {
        const next = (r) => (r + 1) % N, part = (i) => ((i % N) + N) % N;
        range(N - 1).forEach((s) => round(() => range(N).forEach((r) => sendNow(r, next(r), part(r - s), "add"))));
        range(N - 1).forEach((s) => round(() => range(N).forEach((r) => sendNow(r, next(r), part(r + 1 - s), "set"))));
      },
    },
    all_to_all: {
      name: "all_to_all",
      begin: (x, r) => x.map((each, i) => (i === r ? each : null)),
      rounds: ({ N, round, send }) => range(N - 1).forEach((k) => round(() => range(N).forEach((r) => {
        const to = (r + k + 1) % N;
        send(r, to, [to], [r]);
      }))),
    },
  };

  // Each part to the rank that adds it up, and from there to all.
  function reduceParts({ N, round, send }, place) {
    range(N - 1).forEach((k) => round(() => range(N).forEach((r) => {
      const to = (r + k + 1) % N;
      send(r, to, [to], [place(to)], "add");
    })));
  }
  function gatherParts({ N, round, sendNow }) {
    range(N - 1).forEach((k) => round(() => range(N).forEach((r) => sendNow(r, (r + k + 1) % N, r, "set"))));
  }

  /**
   * {before: what each rank holds, states: what each has as a result at the start and after each round (null: nothing yet),
   * rounds: [[{from, to, parts, places}]], sent: [bytes of each rank, in the order of the states]}. Parts are sent from what
   * was before or, where `now` is true, from the result.
   */
  function play(key, N) {
    const before = range(N).map((r) => range(N).map((i) => 10 * r + i));
    const states = [before.map((x, r) => kinds[key].begin(x, r))], sent = [before.map(() => 0)], rounds = [];
    let messages = null;
    const step = {
      N,
      round: (fill) => {
        messages = [];
        fill();
        const old = states.at(-1), state = old.map((each) => [...each]), bytes = [...sent.at(-1)];
        for (const { from, to, parts, places, how, now } of messages) {
          parts.forEach((part, i) => {
            const value = (now ? old : before)[from][part];
            state[to][places[i]] = how === "add" ? state[to][places[i]] + value : value;
          });
          bytes[from] += kBytes * parts.length;
        }
        rounds.push(messages);
        states.push(state);
        sent.push(bytes);
      },
      send: (from, to, parts, places, how = "set") => messages.push({ from, to, parts, places, how, now: false }),
      sendNow: (from, to, part, how) => messages.push({ from, to, parts: [part], places: [part], how, now: true }),
    };
    kinds[key].rounds(step);
    return { before, states, rounds, sent };
  }

  return { kinds, play };
})();
