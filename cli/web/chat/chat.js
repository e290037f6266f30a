'use strict';
// What comes by itself: messages, how the gateway is, and that it types. Without this script the page still works.
(() => {
  const $ = id => document.getElementById(id);
  const log = $('log'), list = $('messages'), typing = $('typing'), form = $('say'), text = $('text'), trouble = $('trouble');
  const bottom = () => scrollTo(0, document.documentElement.scrollHeight);
  const atBottom = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;

  // put shows an element in place of the one with its id, or behind all messages.
  const put = html => {
    const t = document.createElement('template');
    t.innerHTML = html;
    const now = t.content.firstElementChild, old = $(now.id);
    if (!old) {
      list.append(now);
    } else {
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

  const live = new EventSource(log.dataset.live);
  live.addEventListener('put', e => keep(() => put(e.data)));
  live.addEventListener('state', e => keep(() => { if ($('state').outerHTML !== e.data) put(e.data); }));
  live.addEventListener('gone', e => { const old = $(e.data); if (old) old.remove(); });
  live.addEventListener('typing', e => keep(() => { typing.textContent = e.data === '1' ? typing.dataset.words : ''; }));
  live.addEventListener('reload', () => { live.close(); location.reload(); });
  live.onopen = () => { typing.textContent = ''; };
  live.onerror = () => {
    typing.textContent = live.readyState === EventSource.CLOSED
      ? 'The connection to the server has ended. Load the page again.'
      : 'The connection to the server broke. It is tried again …';
  };
  addEventListener('pagehide', () => live.close());

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
  form.addEventListener('submit', async e => {
    e.preventDefault();
    if (await send(form.action, new FormData(form), e.submitter || form.querySelector('button'))) {
      form.reset();
      text.focus();
      bottom();
    }
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
  bottom();
})();
