'use strict';
// Keeps the page fresh (messages, the gateway's state, and whether it types), and sends messages one after the other.
// Without this script the page still works.
(() => {
  const $ = id => document.getElementById(id);
  const log = $('log'), typing = $('typing'), form = $('say'), text = $('text'), trouble = $('trouble');
  const place = 'chat ' + log.dataset.live; // the key under which the browser stores what it keeps of this room
  const bottom = () => scrollTo(0, document.documentElement.scrollHeight);
  const atBottom = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
  const element = (tag, words, className = '') => Object.assign(document.createElement(tag), {textContent: words, className});
  const button = (words, name, act) => {
    const b = element('button', words, 'quiet');
    b.type = 'button';
    b.setAttribute('aria-label', name);
    b.addEventListener('click', act);
    return b;
  };

  // The room: a line with the date before each day's messages, and a mark before the first message that came while
  // nobody saw the page (fresh is its id).
  let fresh = '', catchingUp = false;
  const moment = message => message?.querySelector('time').dateTime ?? '';
  const marks = () => {
    for (const old of log.querySelectorAll('.day, .new')) old.remove();
    let before = new Date().toDateString();
    for (const message of log.querySelectorAll('.message')) {
      const at = new Date(moment(message)), day = at.toDateString();
      if (day !== before) message.before(element('li', at.toLocaleDateString('en-GB', {weekday: 'long', day: 'numeric', month: 'long'}), 'day'));
      before = day;
      if (message.id === fresh) message.before(element('li', 'New', 'new'));
    }
    const last = [...log.querySelectorAll('.message')].at(-1);
    if (!document.hidden) localStorage.setItem(place, JSON.stringify([last?.id, moment(last)]));
  };
  // put shows an element in place of the one with the same id or, if there is none, behind all messages.
  const put = html => {
    const now = shared.made(html).firstElementChild, old = $(now.id);
    if (!old) {
      $('messages').append(now);
      if (catchingUp && !fresh && now.matches('.bot')) fresh = now.id;
    } else if (!old.isEqualNode(now)) {
      const focused = old.contains(document.activeElement);
      old.replaceWith(now);
      if (focused) text.focus({preventScroll: true});
    }
  };
  // A page that is scrolled to the bottom stays there when messages come, pictures load late or the phone is turned.
  let follow = true;
  addEventListener('scroll', () => { follow = atBottom(); });
  new ResizeObserver(() => { if (follow) bottom(); }).observe(document.body);
  const keep = change => {
    change();
    marks();
    if (follow) bottom();
  };
  let since = log.dataset.since;
  const on = act => e => {
    since = e.lastEventId || since;
    keep(() => act(e.data));
  };
  shared.stream(() => log.dataset.live + '?since=' + encodeURIComponent(since), {
    open: () => { typing.textContent = ''; catchingUp = true; },
    put: on(put),
    state: on(html => { put(html); catchingUp = false; }), // sent after all that was missed
    gone: on(id => $(id)?.remove()),
    typing: on(yes => { typing.textContent = yes === '1' ? typing.dataset.words : ''; }),
    whole: on(data => { // the server was restarted, perhaps with another script
      const cut = data.indexOf('\n');
      if (!document.querySelector(`script[src="${CSS.escape(data.slice(0, cut))}"]`)) location.reload();
      log.replaceChildren(shared.made(data.slice(cut + 1)));
    }),
  });
  document.addEventListener('visibilitychange', () => { if (document.hidden) fresh = ''; });

  // post sends a body. It returns null or, if that failed, the HTTP status (0: no answer) and why.
  const post = async (action, body) => {
    try {
      const answer = await fetch(action, {method: 'POST', body, headers: {Accept: 'text/plain'}});
      if (answer.ok) return null;
      return {status: answer.status, words: answer.status === 401 ? 'Your login has ended. Load the page again.' : await answer.text()};
    } catch {
      return {status: 0, words: 'The server did not answer.'};
    }
  };
  log.addEventListener('submit', async e => {
    e.preventDefault();
    const pressed = new URLSearchParams(new FormData(e.target, e.submitter)); // a disabled button has no value
    e.submitter.disabled = true;
    trouble.textContent = (await post(e.target.action, pressed))?.words ?? '';
    e.submitter.disabled = false;
  });

  // The files of the message that is being written.
  const picked = [], sizeOf = n => n < 1e6 ? Math.ceil(n / 1000) + ' KB' : (n / 1e6).toFixed(1) + ' MB';
  const showPicked = () => $('picked').replaceChildren(...picked.map(file => {
    const item = element('li', `${file.name} (${sizeOf(file.size)}) `);
    item.append(button('✕', 'Remove ' + file.name, () => {
      picked.splice(picked.indexOf(file), 1);
      showPicked();
      text.focus();
    }));
    return item;
  }));
  const add = files => {
    trouble.textContent = '';
    for (const file of files) {
      const bytes = picked.reduce((sum, f) => sum + f.size, file.size);
      if (picked.length >= +form.dataset.files || bytes > +form.dataset.bytes) {
        trouble.textContent = `${file.name} was not added: at most ${form.dataset.files} files, ${form.dataset.bytes >> 20} MB in total.`;
      } else {
        picked.push(file);
      }
    }
    showPicked();
    bottom();
  };
  $('files').addEventListener('change', e => {
    add(e.target.files);
    e.target.value = '';
  });
  text.addEventListener('paste', e => {
    if (!e.clipboardData.files.length) return;
    e.preventDefault();
    add(e.clipboardData.files);
  });
  addEventListener('dragover', e => { if (e.dataTransfer.types.includes('Files')) e.preventDefault(); });
  addEventListener('drop', e => {
    if (!e.dataTransfer.files.length) return;
    e.preventDefault();
    add(e.dataTransfer.files);
  });

  // The messages that are not sent yet, in order. One message is being sent at a time. A message that cannot be sent is
  // shown with the reason, and those behind it wait.
  const unsent = [];
  let sending = false;
  const show = m => {
    m.shown ??= element('li', '', 'message mine');
    m.shown.replaceChildren(element('div', m.text, 'text said'), ...m.files.map(f => element('p', f.name, 'dim')));
    if (m.trouble) {
      m.shown.append(element('p', m.trouble, 'bad'), button('Try again', 'Try again', send), ' ', button('Remove', 'Remove', () => { drop(m); send(); }));
    } else {
      m.shown.append(element('p', 'not sent yet', 'dim'));
    }
    if (!m.shown.isConnected) $('unsent').append(m.shown);
  };
  const drop = m => {
    unsent.splice(unsent.indexOf(m), 1);
    m.shown.remove();
  };
  const say = m => {
    unsent.push(m);
    show(m);
  };
  async function send() {
    if (sending) return;
    sending = true;
    for (let m; (m = unsent[0]);) {
      m.trouble = '';
      show(m);
      const body = new FormData();
      body.append('text', m.text);
      for (const file of m.files) body.append('files', file);
      const failed = await post(form.action, body);
      if (!failed) {
        drop(m);
      } else if (failed.status === 503) { // nothing was stored, and another try will succeed
        await new Promise(done => setTimeout(done, 1000));
      } else {
        m.trouble = failed.words;
        if (failed.status === 413) m.files = [];
        show(m);
          break;
      }
    }
    sending = false;
  }
  const grow = () => {
    if (CSS.supports('field-sizing', 'content')) return;
    text.style.height = 'auto';
    text.style.height = text.scrollHeight + 2 + 'px';
  };
  text.addEventListener('input', grow);
  form.addEventListener('submit', e => {
    e.preventDefault();
    text.focus();
    if (!text.value.trim() && !picked.length) return;
    trouble.textContent = '';
    fresh = '';
    say({text: text.value, files: picked.splice(0)});
    text.value = '';
    grow();
    showPicked();
    marks();
    bottom();
    send();
  });
  text.addEventListener('keydown', e => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing || matchMedia('(pointer: coarse)').matches) return;
    e.preventDefault();
    form.requestSubmit();
  });

  // Text that was written is kept, in this tab, when the page is left; files are not.
  addEventListener('pagehide', () => {
    sessionStorage.setItem(place, JSON.stringify({text: text.value, unsent: unsent.map(m => ({text: m.text, files: m.files.length}))}));
  });
  const kept = JSON.parse(sessionStorage.getItem(place) ?? '{}');
  sessionStorage.removeItem(place);
  text.value = kept.text ?? '';
  for (const m of kept.unsent ?? []) {
    say({text: m.text, files: [], trouble: 'The page was left before this was sent.' + (m.files ? ' Its files have to be added again.' : '')});
  }

  form.classList.add('live');
  const [seen, at] = JSON.parse(localStorage.getItem(place) ?? '[]'); // the message that was seen last may be gone
  if (at !== undefined) fresh = [...log.querySelectorAll($(seen) ? `#${CSS.escape(seen)} ~ .bot` : '.bot')].find(message => $(seen) || moment(message) > at)?.id ?? '';
  grow();
  marks();
  follow = !fresh;
  if (fresh) log.querySelector('.new').scrollIntoView({block: 'center'});
  else bottom();
})();
