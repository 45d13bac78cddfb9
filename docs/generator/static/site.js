"use strict";
// A figure is as wide as the text; on a narrow screen one touch shows it in its own size, to be moved from side to side.
addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll(".figure .picture")) {
    const image = picture.querySelector("img");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "enlarge";
    const say = () => {
      const large = picture.classList.contains("large");
      button.textContent = large ? "fit to the page" : "enlarge";
      button.setAttribute("aria-pressed", String(large));
    };
    const turn = () => {
      picture.classList.toggle("large");
      say();
    };
    button.addEventListener("click", turn);
    image.addEventListener("click", turn);
    say();
    picture.after(button);
  }
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
