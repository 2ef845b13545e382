// The frame: which page is shown, who is signed in, light or dark.

import { Problem, answered, json, signIn, signOut } from './api.js';
import { announce, fresh, h, name } from './dom.js';
import { listen, rest } from './live.js';
import { change, link, read } from './state.js';

/** The pages of the server, and those of a workspace. Of those that say more of themselves there is no tab: they stand `under` that of another page, or nowhere. */
const SERVER = {
  workspaces: ['Workspaces', () => import('./workspaces.js')],
  operate: ['Operate', () => import('./operate.js')],
  // Who has a link needs no account.
  judge: ['Judge', () => import('./judge.js'), { isOpen: true }],
  // Links of MLflow's clients lead here.
  experiments: ['Runs', () => import('./linked.js'), { under: 'workspaces' }],
};
const OF_WORKSPACE = {
  metrics: ['Metrics', () => import('./metrics.js')],
  day: ['Day', () => import('./day.js')],
  compare: ['Compare', () => import('./compare.js')],
  drift: ['Drift', () => import('./drift.js')],
  alerts: ['Alerts', () => import('./alerts.js')],
  review: ['Review', () => import('./review.js')],
  arena: ['Arena', () => import('./arena.js')],
  runs: ['Runs', () => import('./runs.js')],
  run: ['Run', () => import('./run.js'), { under: 'runs' }],
  compared: ['Compared runs', () => import('./compared.js'), { under: 'runs' }],
  catalog: ['Catalog', () => import('./catalog.js')],
  sql: ['SQL', () => import('./sql.js')],
};

const main = document.getElementById('main');
const head = document.getElementById('head');
let who = null;
/** That somebody who was signed in is not any more, until somebody is. */
let ended = null;
let shownPlace = null;
let timer = null;

/** When a page that was to be shown again is looked at once more, in milliseconds. */
const LATER = 2_000;

/** When the page began to be shown, whether it is still being made, and whether something moved since. */
const state = { begunAt: 0, isBusy: false, isStale: false };
let running = new AbortController();

/** What is listened to: of which workspace, whether what moves is heard, and how it is stopped. */
let ear = null;

/** Which topics the page shows, and after how many milliseconds it is shown again where what moves is not heard. */
let wanted = { topics: [], every: null };

/** The other tabs with these pages. */
const others = new BroadcastChannel('almanac-session');

const THEMES = ['system', 'light', 'dark'];

function theme(next) {
  if (next) localStorage.setItem('almanac-theme', next);
  const now = localStorage.getItem('almanac-theme') ?? 'system';
  if (now === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
  return now;
}

function themeChoice() {
  const id = fresh('theme');
  const now = theme();
  return h('div', { class: 'theme' }, h('label', { class: 'unseen', for: id }, 'Theme'),
    h('select', { id, onchange: (event) => theme(event.target.value) }, THEMES.map((one) => h('option', { value: one, selected: one === now }, one[0].toUpperCase() + one.slice(1)))));
}

/** The tabs: text, address, and whether it is that of the page that is shown. */
function tabs(now) {
  const pages = now.workspace ? OF_WORKSPACE : SERVER;
  const kept = now.workspace ? Object.fromEntries(['from', 'to', 'as-of'].map((key) => [key, now.chosen.get(key)])) : {};
  const under = pages[now.page]?.[2]?.under;
  const isHere = (page) => (page === now.page ? 'page' : page === under ? 'true' : null);
  return Object.entries(pages).filter(([, [, , more]]) => !more).map(([page, [text]]) => [text, link(page, now.workspace, kept), isHere(page)]);
}

function drawHead(now) {
  const leave = () => signOut().then(() => forget(), failed);
  head.replaceChildren(
    h('div', { class: 'bar' },
      h('a', { class: 'brand', href: '#/workspaces' }, h('img', { src: '/dashboard/icon.svg', alt: '', width: 26, height: 26 }), 'Almanac'),
      now.workspace && h('span', { class: 'where' }, h('span', { class: 'quiet', 'aria-hidden': 'true' }, '/'), name(now.workspace)),
      h('span', { class: 'space' }),
      who && h('span', { class: 'quiet who' }, name(who)),
      who && h('button', { type: 'button', onclick: leave }, 'Sign out'),
      themeChoice()),
    h('nav', { 'aria-label': now.workspace ? 'Pages of the workspace' : 'Pages' },
      h('ul', null, tabs(now).map(([text, href, here]) => h('li', null, h('a', { href, 'aria-current': here }, text))))),
    h('p', { id: 'said', class: 'unseen', role: 'status' }));
}

/** Shows nothing more of who was signed in: here, and in the other tabs. */
function forget() {
  who = null;
  ended = null;
  others.postMessage('signed out');
  show();
}

function askForToken(problem) {
  const id = fresh('token');
  const input = h('input', { id, type: 'password', autocomplete: 'off', spellcheck: 'false', required: true });
  const submit = (event) => {
    event.preventDefault();
    const token = input.value.trim();
    input.value = '';
    signIn(token).then(() => {
      ended = null;
      others.postMessage('signed in');
      show();
    }, (error) => (error.status === 401 ? askForToken(error.message) : failed(error)));
  };
  document.title = 'Sign in · Almanac';
  main.replaceChildren(h('form', { class: 'card sign-in', onsubmit: submit },
    h('h1', null, 'Sign in'),
    h('p', null, 'Callers of this server say who they are by a token. An administrator makes one for you with ', h('code', null, 'almanac token create'), '.'),
    problem && h('p', { class: 'notice', role: 'alert' }, problem),
    h('label', { for: id }, 'Token'), input,
    h('button', { class: 'first', type: 'submit' }, 'Sign in'),
    h('p', { class: 'quiet' }, 'It opens a session of 12 hours at most, and is not kept. The session ends when you sign out, or the token is revoked.')));
  input.focus();
}

function failed(error) {
  if (error instanceof Problem && error.status === 401) {
    if (who) ended = 'The session has ended; sign in again.';
    who = null;
    drawHead(read());
    askForToken(ended);
    return;
  }
  const text = error instanceof Problem ? error.message : 'The page has a mistake; the console of the browser says more.';
  if (!(error instanceof Problem)) console.error(error);
  // A browser remembers a module that it could not load until the whole page is loaded again.
  const again = () => (error.status === 0 ? location.reload() : show());
  main.replaceChildren(h('div', { class: 'card', role: 'alert' }, h('h1', null, 'This cannot be shown'), h('p', null, text), h('button', { type: 'button', onclick: again }, 'Try again')));
}

/** Shows the page again: soon when what it shows has moved, else after a while. */
function later() {
  clearTimeout(timer);
  const after = rest({ ...state, every: wanted.every, isHeard: ear?.isHeard }, Date.now());
  if (after !== null) timer = setTimeout(refresh, after);
}

/** Listens to the workspace that is shown while it is in sight and the page wants to know. */
function attend() {
  const { workspace } = read();
  const of = wanted.topics.length && !document.hidden ? workspace : null;
  if (ear && ear.workspace !== of) {
    ear.stop();
    ear = null;
  }
  if (of === null || ear) return;
  const own = { workspace: of, isHeard: false, stop: null };
  ear = own;
  own.stop = listen(of, {
    heard: (topics) => {
      if (!wanted.topics.some((topic) => topics.has(topic))) return;
      state.isStale = true;
      if (!state.isBusy) later();
    },
    hears: (is) => {
      own.isHeard = is;
      document.body.dataset.hears = is;
      if (!state.isBusy) later();
    },
  });
}

/** Shows the page again, unless nobody looks or somebody is using it just now. */
function refresh() {
  clearTimeout(timer);
  const isUsed = main.contains(document.activeElement) && document.activeElement !== main;
  if (document.hidden || isUsed || main.querySelector('details[open]')) timer = setTimeout(refresh, LATER);
  else show(true);
}

async function show(quietly = false) {
  clearTimeout(timer);
  Object.assign(state, { begunAt: Date.now(), isBusy: true, isStale: false });
  const news = { topics: [], every: null };
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const now = read();
  const pages = now.workspace ? OF_WORKSPACE : SERVER;
  const known = Object.hasOwn(pages, now.page) ? pages[now.page] : null;
  if (!quietly) drawHead(now);
  if (!quietly) main.setAttribute('aria-busy', 'true');
  const late = setTimeout(() => !quietly && main.classList.add('waits'), 250);
  const place = `${now.workspace}/${now.page}`;
  const heading = () => now.workspace && known && h('h1', null, known[0], h('span', { class: 'quiet' }, ' of '), name(now.workspace));
  if (shownPlace !== place) main.replaceChildren(heading() || h('h1', null, known?.[0] ?? 'Almanac'), h('p', { class: 'loading' }, 'Loading'));
  shownPlace = place;
  try {
    if (!known) throw new Problem(404, 'There is no such page.');
    if (who === null && !known[2]?.isOpen) who = (await json('/v1/whoami', {}, { signal })).principal ?? '';
    const { page } = await answered(known[1]());
    const go = (choices) => {
      location.hash = change(now, choices);
    };
    const again = (after) => Object.assign(news, { every: after });
    const moves = (topics, every) => Object.assign(news, { topics, every });
    const made = await page({ ...now, signal, go, again, moves });
    if (signal.aborted) return;
    const chosen = main.contains(document.activeElement) ? [...main.querySelectorAll('select, input, button')].indexOf(document.activeElement) : -1;
    document.title = `${known[0]}${now.workspace ? ` of ${now.workspace}` : ''} · Almanac`;
    main.replaceChildren(...[heading(), made].flat(Infinity).filter((one) => one instanceof Node));
    if (!quietly) {
      drawHead(now);
      announce(`${known[0]} shown`);
    }
    if (chosen >= 0) main.querySelectorAll('select, input, button')[chosen]?.focus();
  } catch (error) {
    if (signal.aborted || error.name === 'AbortError') return;
    failed(error);
  } finally {
    clearTimeout(late);
    if (!signal.aborted) {
      state.isBusy = false;
      wanted = news;
      attend();
      later();
      main.classList.remove('waits');
      main.removeAttribute('aria-busy');
    }
  }
}

document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
theme();
addEventListener('hashchange', () => show());
document.addEventListener('visibilitychange', () => {
  attend();
  // What moved while nobody looked was not heard.
  if (!document.hidden && wanted.topics.length) refresh();
});
others.addEventListener('message', () => {
  who = null;
  ended = null;
  show();
});
show();
