"use strict";
// The search page: sections that have the words of the question, best first. Works on pages that lie in a file.
(() => {
  const kMost = 30;  // results
  const kOfOnePage = 3;
  const kAround = 220;  // letters of an excerpt
  // Words of questions that say nothing about what is asked.
  const kIdle = new Set(("a an and any are as at be by can could did do does for from get has have how i if in is it its me " +
    "my of on one or our should so some that the their them there they this to use using want was we what when where " +
    "which who why will with would you your support supported hero").split(" "));
  // Pages for those who know what they look for come after the others.
  const kLast = /^(changelog|design|differences|performance\/)/;

  const words = (text) => text.toLowerCase().match(/[a-z0-9][a-z0-9_+]*/g) || [];

  // Ends that grammar adds; `sharded`, `shards` and `sharding` are one word here.
  function stem(word) {
    if (word.length < 5) return word.replace(/s$/, (s) => (word.length > 3 ? "" : s));
    const short = word.replace(/(isation|ization|ations?|ings?|ers?|ors?|ed|es|s|e)$/, "");
    return short.length < 3 ? word : short.replace(/(..)([bdgmnprt])\2$/, "$1$2").replace(/i$/, "y");
  }

  // What a reader may call things, beside the words of the pages.
  const kAlso = {
    oom: ["memory"], gpu: ["cuda"], gpus: ["cuda"], vram: ["memory"], tutorial: ["chapter"], multi: ["several"],
    node: ["host"], nodes: ["hosts"], install: ["packages"], ddp: ["data", "parallelism"], resume: ["checkpoint"],
    huggingface: ["hugging", "face"], matmul: ["product"], crash: ["error"], inference: ["generate"],
  };

  function build() {
    const postings = new Map();  // stem -> [section, weight]...
    let all = 0;
    const lengths = searchIndex.sections.map(([page, heading, , text], at) => {
      const count = new Map();
      const add = (each, weight) => words(each).forEach((word) => {
        for (const part of new Set([word, ...word.split("_")])) {
          if (part) count.set(stem(part), (count.get(stem(part)) || 0) + weight);
        }
      });
      add(page, heading ? 1.5 : 12);
      add(heading, 10);
      add(text, 1);
      for (const [word, weight] of count) {
        if (!postings.has(word)) postings.set(word, []);
        postings.get(word).push([at, weight]);
      }
      const length = words(text).length + 20;
      all += length;
      return length;
    });
    return { postings, lengths, mean: all / lengths.length };
  }

  // BM25 (Robertson and Zaragoza, 2009) with k1 = 1.4 and b = 0.5; sections with more of the words come first.
  function search(index, question) {
    const asked = [...new Set(words(question))];
    const telling = asked.filter((word) => !kIdle.has(word));
    const wanted = telling.length ? telling : asked;
    const scores = new Map();
    for (const word of wanted) {
      const best = new Map();
      const look = (key, share) => {
        const found = index.postings.get(key) || [];
        const rare = Math.log(1 + (index.lengths.length - found.length + 0.5) / (found.length + 0.5));
        for (const [at, weight] of found) {
          const long = 0.5 + (0.5 * index.lengths[at]) / index.mean;
          const score = (share * rare * weight * 2.4) / (weight + 1.4 * long);
          if (score > (best.get(at) || 0)) best.set(at, score);
        }
      };
      look(stem(word), 1);
      for (const also of kAlso[word] || []) look(stem(also), 0.7);
      if (word.length > 2) {  // a word that is still being typed
        for (const key of index.postings.keys()) {
          if (key !== stem(word) && key.startsWith(word)) look(key, 0.6);
        }
      }
      for (const [at, score] of best) {
        const old = scores.get(at) || { score: 0, hits: 0 };
        scores.set(at, { score: old.score + score, hits: old.hits + 1 });
      }
    }
    const phrase = question.trim().toLowerCase();
    const rank = (at, { score, hits }) => {
      const [page, heading, uri, text] = searchIndex.sections[at];
      const whole = wanted.length > 1 && `${page} ${heading} ${text}`.toLowerCase().includes(phrase);
      return score * (hits / wanted.length) ** 2 * (whole ? 1.5 : 1) * (kLast.test(uri) ? 0.75 : 1);
    };
    const ordered = [...scores].map(([at, each]) => [at, rank(at, each)]).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    const shown = new Map();  // by page, how many of its sections
    const few = ordered.filter(([at]) => {
      const page = searchIndex.sections[at][0];
      shown.set(page, (shown.get(page) || 0) + 1);
      return shown.get(page) <= kOfOnePage;
    });
    return few.slice(0, kMost).map(([at]) => at);
  }

  // Names of the API reference that are, begin with or have what is asked for.
  function namesFor(question) {
    const asked = question.trim().replace(/^hero::|\(\)$/g, "").toLowerCase();
    if (asked.length < 3 || /\s/.test(asked)) return [];
    const last = (name) => name.slice(name.lastIndexOf("::") + 2 || 0).toLowerCase();
    const grade = ([name]) => {
      const whole = name.toLowerCase(), end = name.includes("::") ? last(name) : whole;
      if (whole === asked || end === asked) return 0;
      return whole.startsWith(asked) || end.startsWith(asked) ? 1 : 9;
    };
    const graded = searchIndex.names.map((each) => [grade(each), each]).filter(([g]) => g < 9)
      .sort(([g, [a]], [h, [b]]) => g - h || a.length - b.length || (a < b ? -1 : 1));
    return graded.slice(0, graded.length && graded[0][0] === 0 ? 2 : 4).map(([, each]) => each);
  }

  function node(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // The text around the first of the words, with all of them marked.
  function excerpt(text, stems) {
    const parts = text.split(/([A-Za-z0-9][A-Za-z0-9_+]*)/);
    const is = (part) => stems.has(stem(part.toLowerCase()));
    let first = parts.findIndex((part, i) => i % 2 && is(part));
    if (first < 0) first = 1;
    let from = first, before = 0;
    while (from > 0 && before < 60) before += parts[--from].length;
    const shown = [];
    let length = 0, to = from;
    for (; to < parts.length && length < kAround; length += parts[to++].length) {
      shown.push(to % 2 && is(parts[to]) ? node("mark", {}, parts[to]) : parts[to]);
    }
    return [from > 0 ? "… " : "", ...shown, to < parts.length ? " …" : ""];
  }

  const input = document.getElementById("find");
  const status = document.getElementById("found");
  const list = document.getElementById("results");
  let index = null;

  function show() {
    const question = input.value.trim();
    list.replaceChildren();
    if (!question) {
      status.textContent = "";
      return;
    }
    index = index || build();
    const stems = new Set(words(question).filter((word) => !kIdle.has(word)).map(stem));
    const names = namesFor(question), found = search(index, question);
    for (const [name, at] of names) {
      list.append(node("li", { class: "name" }, node("a", { href: `reference/${at}` }, node("code", {}, name)),
        node("span", { class: "place" }, "API reference")));
    }
    for (const at of found) {
      const [page, heading, uri, text] = searchIndex.sections[at];
      list.append(node("li", {}, node("a", { href: uri }, heading || page),
        node("span", { class: "place" }, heading ? page : ""), node("p", {}, ...excerpt(text, stems))));
    }
    const many = names.length + found.length;
    status.textContent = many ? "" : "Nothing has these words. Try fewer, or more common ones.";
  }

  input.value = new URLSearchParams(location.search).get("q") || "";
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 120);
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  show();
})();
