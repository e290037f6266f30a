// Keeps the status page fresh and copies commands. Without this script the page shows the state when it was loaded.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const waiting = new Map(); // parts that came while a person used them: ids and markup

  function prepare(root) {
    for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
  }

  function busy(part) {
    const selection = document.getSelection();
    return part.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  }

  function put(id, markup) {
    const part = document.getElementById(id);
    if (!part) return;
    if (busy(part)) { waiting.set(id, markup); return; }
    waiting.delete(id);
    const open = [...part.querySelectorAll("details[open][id]")].map((d) => d.id);
    part.replaceChildren(shared.made(markup));
    for (const details of open) document.getElementById(details)?.setAttribute("open", "");
    prepare(part);
  }

  function flush() {
    for (const [id, markup] of [...waiting]) put(id, markup);
  }

  shared.stream(() => "/events", {
    part(event) {
      const cut = event.data.indexOf("\n");
      put(event.data.slice(0, cut), event.data.slice(cut + 1));
      live.textContent = "This page is live.";
    },
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    } catch { // no clipboard over plain http from another machine: the text is selected, to be copied by hand
      const code = button.parentElement.querySelector("code");
      document.getSelection().selectAllChildren(code);
    }
  });
  document.addEventListener("focusout", () => setTimeout(flush, 0));
  document.addEventListener("selectionchange", () => { if (document.getSelection().isCollapsed) flush(); });
  prepare(document);
})();
