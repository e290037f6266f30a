"use strict";
// What the pages share: times in the reader's time zone, and a stream that shows when the server is silent. Without
// this script the pages show times in the server's time zone, and the state at the moment when they were loaded.
const shared = (() => {
  // The server sends something on a stream every two seconds. After silence without anything it counts as gone, and
  // after again the stream is opened anew; both are in milliseconds.
  const silence = 4500, again = 2000;

  // localise shows each <time> below root in the browser's time zone, in the form that its data-as names. A <time>
  // without data-as keeps its text, and only gets a title.
  function localise(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime), now = new Date();
      const year = at.getFullYear() === now.getFullYear() ? {} : {year: "numeric"};
      const day = at.toLocaleDateString("en-GB", {day: "numeric", month: "short", ...year});
      const clock = at.toLocaleTimeString("en-GB", {hour: "2-digit", minute: "2-digit"});
      const today = at.toDateString() === now.toDateString();
      if (time.dataset.as === "clock") time.textContent = today ? clock : day + " " + clock;
      if (time.dataset.as === "hour") time.textContent = clock;
      if (time.dataset.as === "day") time.textContent = day;
      time.title = at.toLocaleString("en-GB", {dateStyle: "medium", timeStyle: "medium"});
    }
    return root;
  }

  // made returns the nodes of markup, with their times localised.
  function made(markup) {
    const template = document.createElement("template");
    template.innerHTML = markup;
    return localise(template.content);
  }

  // heard shows whether the server answers: if it does not, the page shows #lost in place of the elements of class
  // "now", which describe the present state.
  function heard(there) {
    const lost = document.getElementById("lost");
    if (lost.hidden === there) return;
    lost.hidden = there;
    document.body.classList.toggle("lost", !there);
    for (const now of document.querySelectorAll(".now")) now.hidden = !there;
    if (there) return;
    const since = lost.querySelector("time");
    since.dateTime = new Date().toISOString();
    localise(lost);
  }

  // stream opens the stream at address(), and calls for each event of the server the function of that name in events.
  // It is open only while the page is visible: a browser has six connections for a server, and the seventh page would
  // wait for ever. It returns a function that ends the stream.
  function stream(address, events) {
    let source = null, timer = 0, retry = 0;
    function leave() {
      clearTimeout(timer);
      clearTimeout(retry);
      source?.close();
      source = null;
    }
    function gone() {
      heard(false);
      leave();
      retry = setTimeout(open, again);
    }
    function open() {
      if (source || document.hidden) return;
      leave();
      source = new EventSource(address());
      timer = setTimeout(gone, silence);
      source.onerror = gone;
      for (const [name, act] of Object.entries({beat() {}, ...events})) {
        source.addEventListener(name, (event) => {
          clearTimeout(timer);
          timer = setTimeout(gone, silence);
          act(event);
          heard(true);
        });
      }
      source.addEventListener("end", () => { leave(); location.replace("/login?ended"); });
    }
    document.addEventListener("visibilitychange", () => document.hidden ? leave() : open());
    addEventListener("pagehide", leave);
    addEventListener("pageshow", open);
    open();
    return leave;
  }

  localise(document);
  return {made, stream};
})();
