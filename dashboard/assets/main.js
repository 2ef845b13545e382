// The frame: which page is shown, of which workspace, who is signed in, light or dark.

import { Problem, answered, change, json, link, read, signIn, signOut, text } from './api.js';
import { announce, fresh, h, name, prose, unturned } from './dom.js';
import { listen, rest } from './live.js';
import { VERSION } from './version.js';

/** The pages of a workspace below its tabs: the text of the tab, and of each page its heading, its link (none, where it is reached from another one), its module and the part of that. */
const TABS = [
  ['Overview', { overview: ['Overview', 'Overview', './overview.js'] }],
  ['Performance', {
    metrics: ['Performance', 'Over time', './metrics.js'],
    day: ['Day', 'Day', './day.js'],
    review: ['Review', 'Review', './review.js', 'reviewPage'],
    sql: ['SQL', 'SQL', './sql.js'],
  }],
  ['Slices & drift', { slices: ['Slices', 'Slices', './drift.js', 'slicesPage'], drift: ['Drift', 'Drift', './drift.js'] }],
  ['Compare', {
    compare: ['Compare', 'Releases', './compare.js'],
    arena: ['Arena', 'Arena', './review.js', 'arenaPage'],
    runs: ['Runs', 'Runs', './runs.js'],
    run: ['Run', null, './runs.js', 'runPage'],
    compared: ['Compared runs', null, './runs.js', 'comparedPage'],
  }],
  ['Alerts', { alerts: ['Alerts', 'Rules', './alerts.js'], operate: ['Operate', 'Service', './operate.js'] }],
  ['Catalog', { catalog: ['Catalog', 'Catalog', './catalog.js'] }],
];

/** The pages that are of no workspace. */
const SERVER = {
  start: ['Almanac', null, './overview.js', 'startPage'],
  help: ['Help', null, './overview.js', 'helpPage'],
  operate: ['Operate', null, './operate.js'],
  // Who has a link needs no account.
  judge: ['Judge', null, './review.js', 'judgePage'],
  // Links of MLflow's clients lead here.
  experiments: ['Runs', null, './runs.js', 'linkedPage'],
};
const OF_WORKSPACE = Object.assign({}, ...TABS.map(([, pages]) => pages));

const main = document.getElementById('main');
const head = document.getElementById('head');
let who = null;
/** The workspaces that may be seen, by path. */
let workspaces = [];
/** That somebody who was signed in is not any more, until somebody is. */
let ended = null;
let shownPlace = null;
let timer = null;

/** When a page that was to be shown again is looked at once more, in milliseconds. */
const LATER = 2_000;

/** When the page began to be shown, whether it is still being made, and whether something moved since. */
const state = { begunAt: 0, shownAt: 0, isBusy: false, isStale: false };
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
  const now = theme();
  return h('div', { class: 'theme' }, h('label', { class: 'unseen', for: 'theme' }, 'Theme'),
    h('select', { id: 'theme', onchange: (event) => theme(event.target.value) }, THEMES.map((one) => h('option', { value: one, selected: one === now }, one[0].toUpperCase() + one.slice(1)))));
}

/** The choice of a workspace, which leads to the page of the same name there, but for those of a single run. */
function switcher({ workspace, page }) {
  const all = [...new Set([...(workspace ? [workspace] : []), ...workspaces])].sort();
  if (!all.length) return null;
  const to = (path) => {
    location.hash = link(OF_WORKSPACE[page]?.[1] ? page : 'overview', path);
  };
  return h('div', { class: 'where' }, h('label', { class: 'unseen', for: 'workspace' }, 'Workspace'),
    h('select', { id: 'workspace', onchange: (event) => event.target.value && to(event.target.value) },
      !workspace && h('option', { value: '' }, 'choose a workspace'), all.map((path) => h('option', { value: path, selected: path === workspace }, unturned(path)))));
}

/** A row of links: text, address, and whether it is that of the page that is shown. Where it is wider than the window the current one is in view. */
function linksOf(label, kind, all) {
  const list = h('ul', { class: kind }, all.map(([text, href, here]) => h('li', null, h('a', { href, 'aria-current': here }, text))));
  requestAnimationFrame(() => {
    const current = list.querySelector('[aria-current]');
    if (current) list.scrollLeft = current.offsetLeft - (list.clientWidth - current.offsetWidth) / 2;
  });
  return h('nav', { 'aria-label': label }, list);
}

/** The tabs, and below them the pages of the current one. */
function navigation({ page, workspace, chosen }) {
  if (!workspace) return null;
  const kept = Object.fromEntries(['days', 'from', 'to', 'as-of'].map((key) => [key, chosen.get(key)]));
  const to = (one) => link(one, workspace, kept);
  const tab = TABS.find(([, pages]) => Object.hasOwn(pages, page));
  const linked = Object.entries(tab?.[1] ?? {}).filter(([, [, text]]) => text);
  const under = { run: 'runs', compared: 'runs' }[page];
  return [
    linksOf('Pages of the workspace', 'tabs', TABS.map(([text, pages]) => [text, to(Object.keys(pages)[0]), tab?.[0] !== text ? null : Object.keys(pages)[0] === page ? 'page' : 'true'])),
    linked.length > 1 && linksOf(`Pages of ${tab[0]}`, 'under', linked.map(([one, [, text]]) => [text, to(one), one === page ? 'page' : one === under ? 'true' : null])),
  ];
}

function drawHead(now) {
  const leave = () => signOut().then(() => forget(), failed);
  const held = head.contains(document.activeElement) ? document.activeElement.id : '';
  head.replaceChildren(...[
    h('div', { class: 'bar' },
      h('a', { class: 'brand', href: '#/', 'aria-label': 'Almanac' }, h('img', { src: '/dashboard/icon.svg', alt: '', width: 26, height: 26 }), h('span', null, 'Almanac')),
      switcher(now),
      h('span', { class: 'space' }),
      who && h('span', { class: 'quiet who' }, name(who)),
      who && h('button', { type: 'button', onclick: leave }, 'Sign out'),
      h('a', { class: 'plain', href: '#/help' }, `Help, ${VERSION}`),
      themeChoice()),
    navigation(now),
    h('p', { id: 'said', class: 'unseen', role: 'status' }),
  ].flat().filter(Boolean));
  if (held) document.getElementById(held)?.focus();
}

/** Reads which workspaces there are, and shows them when they are others than before. */
async function learnWorkspaces(signal, now) {
  try {
    const paths = (await json('/v1/workspaces', {}, { signal })).workspaces.map((one) => one.path);
    if (paths.join('\n') === workspaces.join('\n')) return;
    workspaces = paths;
    drawHead(now);
  } catch {
    // The page itself says what is the matter.
  }
}

/** Shows nothing more of who was signed in: here, and in the other tabs. */
function forget() {
  who = null;
  workspaces = [];
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
    workspaces = [];
    drawHead(read());
    askForToken(ended);
    return;
  }
  if (error instanceof Problem) {
    cannotShow(error);
    return;
  }
  console.error(error);
  // Half an answer of a service that goes away looks like a mistake of the page.
  const mistake = () => cannotShow(new Problem(null, 'The page has a mistake; the console of the browser says more.'));
  text('/healthz').then(mistake, (why) => (why.status === 0 ? cannotShow(why) : mistake()));
}

function cannotShow({ status, message }) {
  // A browser remembers a module that it could not load until the whole page is loaded again.
  const again = () => (status === 0 ? location.reload() : show());
  main.replaceChildren(h('div', { class: 'card', role: 'alert' }, h('h1', null, 'This cannot be shown'), h('p', null, prose(message)), h('button', { type: 'button', onclick: again }, 'Try again')));
}

/** Says above a page that stays what it cannot be looked at again for. */
function sayAway(message) {
  main.querySelector('.away')?.remove();
  main.prepend(h('p', { class: 'notice away', role: 'alert' }, `${message} What is shown is of ${new Date(state.shownAt).toISOString().slice(11, 19)} UTC; it is looked for again.`));
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
  if (now.page === 'workspaces') now.page = 'start';
  const known = Object.hasOwn(pages, now.page) ? pages[now.page] : null;
  if (!quietly) drawHead(now);
  if (!quietly) main.setAttribute('aria-busy', 'true');
  const late = setTimeout(() => !quietly && main.classList.add('waits'), 250);
  const place = `${now.workspace}/${now.page}`;
  // The service is of no workspace.
  const heading = () => now.workspace && known && now.page !== 'operate' && h('h1', null, known[0], h('span', { class: 'quiet' }, ' of '), name(now.workspace));
  if (shownPlace !== place) main.replaceChildren(heading() || h('h1', null, known?.[0] ?? 'Almanac'), h('p', { class: 'loading' }, 'Loading'));
  shownPlace = place;
  try {
    if (!known) throw new Problem(404, 'There is no such page.');
    if (who === null && now.page !== 'judge') who = (await json('/v1/whoami', {}, { signal })).principal ?? '';
    if (now.page !== 'judge' && !quietly) learnWorkspaces(signal, now);
    if (now.workspace) localStorage.setItem('almanac-workspace', now.workspace);
    const page = (await answered(import(known[2])))[known[3] ?? 'page'];
    const go = (choices) => {
      location.hash = change(now, choices);
    };
    const again = (after) => Object.assign(news, { every: after });
    const moves = (topics, every) => Object.assign(news, { topics, every });
    const made = await page({ ...now, signal, go, again, moves, who, quietly, failed });
    if (signal.aborted) return;
    const chosen = main.contains(document.activeElement) ? [...main.querySelectorAll('select, input, button')].indexOf(document.activeElement) : -1;
    document.title = `${known[0]}${now.workspace ? ` of ${now.workspace}` : ''} · Almanac`;
    state.shownAt = state.begunAt;
    main.replaceChildren(...[heading(), made].flat(Infinity).filter((one) => one instanceof Node));
    if (!quietly) {
      drawHead(now);
      announce(`${known[0]} shown`);
    }
    if (chosen >= 0) main.querySelectorAll('select, input, button')[chosen]?.focus();
  } catch (error) {
    if (signal.aborted || error.name === 'AbortError') return;
    if (quietly && error.status === 0) {
      Object.assign(news, wanted);
      sayAway(error.message);
    } else failed(error);
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
