"use strict";
// What both parts of the page use: elements, numbers as text, pairs of inputs, and the theme.
const page = (() => {
  const kSvg = "http://www.w3.org/2000/svg";

  const byId = (id) => document.getElementById(id);

  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }
  /** An HTML element with attributes and children. */
  const html = (name, attributes = {}, ...children) =>
    filled(document.createElement(name), attributes, children);
  /** An SVG element with attributes and children. */
  const svg = (name, attributes = {}, ...children) =>
    filled(document.createElementNS(kSvg, name), attributes, children);

  /** Three digits or the whole number, as chapter 12 prints them: 1.88, 31.4, 120. */
  const digits = (x) => x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0);

  /** A number to seven digits, with a minus sign. */
  const short = (x) => (Number.isFinite(x) ? String(+x.toPrecision(7)).replace(/-/g, "−") : String(x));

  // In the largest unit of which there is a tenth at least.
  function scaled(x, units) {
    const [size, unit] = units.find(([each]) => x >= 0.1 * each) || units.at(-1);
    return `${digits(x / size)} ${unit}`;
  }
  /** Bytes in decimal units, GB the largest as in the paper: 0.23 GB. */
  const bytes = (x) => scaled(x, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]);
  /** A number of parameters: 7.50 B, 0.93 M. */
  const count = (x) => scaled(x, [[1e9, "B"], [1e6, "M"], [1e3, "k"]]);

  /** A number within the limits of its input, or null, and the input is marked as invalid. */
  function numberIn(input) {
    const value = input.valueAsNumber;
    const good = Number.isFinite(value) && input.checkValidity();
    input.setAttribute("aria-invalid", String(!good));
    return good ? value : null;
  }

  /**
   * Ties a slider to a number input: the slider's position p stands for the number of(p), and a
   * number n for the position at(n). `changed` is called when a reader moves either of them.
   */
  function tie(slider, input, of, at, changed) {
    const show = () => {
      const value = numberIn(input);
      if (value === null) return;
      slider.value = String(at(value));
      slider.setAttribute("aria-valuetext", input.value);
    };
    slider.addEventListener("input", () => {
      input.value = String(of(slider.valueAsNumber));
      numberIn(input);
      slider.setAttribute("aria-valuetext", input.value);
      changed();
    });
    input.addEventListener("input", () => {
      show();
      changed();
    });
    show();
    return show;
  }

  /** Fills a select with options [value, text]. */
  function choices(select, pairs) {
    select.replaceChildren(...pairs.map(([value, text]) => html("option", { value }, text)));
  }

  /** How high a picture of that width is, in pixels. */
  const heightFor = (width) => Math.round(Math.max(320, Math.min(470, 0.6 * width)));

  /** Round numbers from low to high, about `wanted` of them. */
  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) found.push(i * step);
    return found;
  }

  // The theme is the system's until the reader chooses one, and the choice is kept where the
  // browser keeps anything for pages that lie in a file.
  function followTheme() {
    const select = byId("theme");
    const apply = () => {
      if (select.value === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = select.value;
    };
    try {
      select.value = localStorage.getItem("hero-theme") || "system";
    } catch {
      select.value = "system";  // the browser keeps nothing
    }
    apply();
    select.addEventListener("change", () => {
      apply();
      try {
        localStorage.setItem("hero-theme", select.value);
      } catch {
        return;  // the choice holds until the page is closed
      }
    });
  }

  return { byId, html, svg, short, bytes, count, numberIn, tie, choices, heightFor, ticks, followTheme };
})();
