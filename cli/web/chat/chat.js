'use strict';
// What comes by itself: messages, how the gateway is, and that it types. Without this script the page still works.
(() => {
  const $ = id => document.getElementById(id);
  const log = $('log'), list = $('messages'), typing = $('typing'), form = $('say'), text = $('text'), files = $('files'), trouble = $('trouble');
  const bottom = () => scrollTo(0, document.documentElement.scrollHeight);
  const atBottom = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;

  // put shows an element in place of the one with its id, or behind all messages.
  const put = html => {
    const now = shared.made(html).firstElementChild, old = $(now.id);
    if (!old) {
      list.append(now);
    } else if (!old.isEqualNode(now)) {
      const focused = old.contains(document.activeElement);
      old.replaceWith(now);
      if (focused) text.focus({preventScroll: true});
    }
  };
  // keep runs change, and stays at the bottom if the page was there.
  const keep = change => {
    const follow = atBottom();
    change();
    if (follow) bottom();
  };

  let since = log.dataset.since;
  const on = act => e => {
    since = e.lastEventId || since;
    keep(() => act(e.data));
  };
  const leave = shared.stream(() => log.dataset.live + '?since=' + encodeURIComponent(since), {
    open: () => { typing.textContent = ''; },
    put: on(put),
    state: on(put),
    gone: on(id => $(id)?.remove()),
    typing: on(yes => { typing.textContent = yes === '1' ? typing.dataset.words : ''; }),
    reload: () => { leave(); history.replaceState(text.value, ''); location.reload(); }, // the text outlives it
  });

  // send posts a form and shows what went wrong, if something did.
  const send = async (action, data, button) => {
    trouble.textContent = '';
    button.disabled = true;
    try {
      const answer = await fetch(action, {method: 'POST', body: data, headers: {Accept: 'text/plain'}});
      if (answer.ok) return true;
      trouble.textContent = answer.status === 401 ? 'Your login has ended. Load the page again.' : await answer.text();
    } catch {
      trouble.textContent = 'The server cannot be reached. Nothing was sent.';
    } finally {
      button.disabled = false;
    }
    return false;
  };
  // One message is under way at a time. What was sent goes from the form, and what was written meanwhile stays.
  form.addEventListener('submit', async e => {
    e.preventDefault();
    const button = form.querySelector('button'), words = text.value, picked = files.files[0];
    if (button.disabled || !await send(form.action, new FormData(form), button)) return;
    if (text.value.startsWith(words)) text.value = text.value.slice(words.length).trimStart();
    if (files.files[0] === picked) files.value = '';
    text.focus();
    bottom();
  });
  list.addEventListener('submit', e => {
    e.preventDefault();
    send(e.target.action, new URLSearchParams(new FormData(e.target, e.submitter)), e.submitter);
  });
  text.addEventListener('keydown', e => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing || matchMedia('(pointer: coarse)').matches) return;
    e.preventDefault();
    form.requestSubmit();
  });
  if (history.state) text.value = history.state;
  history.replaceState(null, '');
  bottom();
})();
