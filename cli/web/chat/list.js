"use strict";
// Keeps the list of gateways fresh.
shared.stream(() => "/chats/live", {
  list(event) {
    const chats = document.getElementById("chats"), at = document.activeElement?.getAttribute("href");
    chats.replaceChildren(shared.made(event.data));
    for (const a of chats.querySelectorAll("a")) if (a.getAttribute("href") === at) a.focus();
  },
});
