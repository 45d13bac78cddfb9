"use strict";
// On a very narrow screen a figure is wider than the text, so that its type can be read, and a button shows it whole. What
// can be moved from side to side can be reached with the keyboard.
function figures() {
  const reach = () => {
    for (const area of document.querySelectorAll(".picture, .table-wrapper, pre, .formula")) {
      if (area.scrollWidth > area.clientWidth) area.tabIndex = 0;
      else area.removeAttribute("tabindex");
    }
    for (const button of document.querySelectorAll(".enlarge")) {
      const picture = button.previousElementSibling;
      button.hidden = !picture.classList.contains("whole") && picture.scrollWidth <= picture.clientWidth;
    }
  };
  for (const picture of document.querySelectorAll(".picture")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "enlarge";
    const say = () => {
      const whole = picture.classList.contains("whole");
      button.textContent = whole ? "enlarge" : "fit to the page";
    };
    button.addEventListener("click", () => {
      picture.classList.toggle("whole");
      say();
      reach();
    });
    say();
    picture.after(button);
  }
  addEventListener("resize", reach);
  reach();
}

// The tabs of a page, such as "Hero" and "PyTorch". A choice holds for all of them that have it, on later pages, too.
function tabs() {
  const sets = [];
  const choose = (name) => {
    for (const set of sets) {
      if (!set.some((tab) => tab.name === name)) continue;
      for (const { name: own, button, panel } of set) {
        const chosen = own === name;
        button.setAttribute("aria-selected", String(chosen));
        button.tabIndex = chosen ? 0 : -1;
        panel.hidden = !chosen;
      }
    }
  };
  document.querySelectorAll(".tabs").forEach((box, number) => {
    const list = document.createElement("div");
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", "The same in");
    const set = [...box.querySelectorAll(":scope > .tab")].map((panel, i) => {
      const title = panel.querySelector("p");
      const name = title.textContent;
      title.remove();
      const button = document.createElement("button");
      button.type = "button";
      button.id = `tab-${number}-${i}`;
      button.textContent = name;
      button.setAttribute("role", "tab");
      panel.id = `panel-${number}-${i}`;
      button.setAttribute("aria-controls", panel.id);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", button.id);
      list.append(button);
      return { name, button, panel };
    });
    set.forEach(({ name, button }, i) => {
      const choice = (to) => {
        choose(to);
        try { localStorage.setItem("tab", to); } catch { /* a browser that stores nothing */ }
      };
      button.addEventListener("click", () => choice(name));
      button.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = set[(i + step + set.length) % set.length];
        choice(next.name);
        next.button.focus();
      });
    });
    box.prepend(list);
    sets.push(set);
    choose(set[0].name);
  });
  try { choose(localStorage.getItem("tab")); } catch { /* as above */ }
}

addEventListener("DOMContentLoaded", () => {
  tabs();
  figures();
  // "/" goes to the search, as on other sites.
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const input = document.querySelector(".sidebar-search");
    if (!input || !input.checkVisibility()) return;
    event.preventDefault();
    input.focus();
  });
});
