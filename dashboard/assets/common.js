// What the pages of a workspace share: its days, what is chosen of them, and cards with a chart and its table.

import { json, ofWorkspace, pages, rows } from './api.js';
import { fresh, h, name, prose } from './dom.js';
import { csv, save, shareMenu, svgFile } from './share.js';
import { addDays, count, dayNumber, dayOf, decimal, minute, today } from './words.js';

const LATEST = 400;
const LONGEST = 3660;
const USUAL = 90;
/** How much is asked for at one time. */
const AT_ONCE = 4;

/** How many events of a workspace there were on each day of its latest year with predictions, else with any, as its rollups have it. */
export async function volume(workspace, signal, most = LATEST) {
  const ask = (from, to) => rows(ofWorkspace(workspace, 'rollups'), { from, to, columns: 'day,release,predictions,outcomes' }, { signal });
  let [to, others] = [addDays(today(), 1), []];
  for (let days = most, tries = 0; tries < 4; days = LONGEST, tries += 1) {
    const from = addDays(to, 1 - days);
    const found = (await ask(from, to)).filter((row) => row.release === null).map(({ day, predictions, outcomes }) => ({ day, predictions: predictions ?? 0, outcomes: outcomes ?? 0 }));
    if (found.some((one) => one.predictions > 0)) return found;
    if (!others.length) others = found;
    to = addDays(from, -1);
  }
  return others;
}

/** The last day with predictions, else the last one with any events: that of a promotion has nothing to show. */
export const lastDay = (days) => (days.findLast((one) => one.predictions > 0) ?? days.findLast((one) => one.outcomes > 0))?.day;

/** The lengths of windows that end with the last day with predictions: of `all` the first day is that with the first prediction. */
const PRESETS = [['7', '7 d'], ['30', '30 d'], ['90', '90 d'], ['all', 'All']];

/** The window that is chosen by its days or its length, else the 90 days up to the last one with predictions. */
export async function windowOf(context) {
  const { chosen, workspace, signal } = context;
  let [from, to] = [chosen.get('from'), chosen.get('to')];
  if (!from || !to) {
    const length = chosen.get('days');
    const days = await volume(workspace, signal, length === 'all' ? LONGEST : LATEST);
    const last = lastDay(days) ?? today();
    to ||= last;
    from ||= addDays(to, 1 - (length === 'all' ? LONGEST : Number(length) || USUAL));
    const first = days.find((one) => one.predictions > 0)?.day ?? days[0]?.day;
    if (!chosen.get('from') && first && dayNumber(first) > dayNumber(from)) from = first <= to ? first : from;
  }
  return { from, to };
}

/** The reference of a window for which none is chosen: those of the `days` days before it from the first with predictions on; or, where none has any, the first half of its days that have some; `null`, where fewer than two have. */
export async function usualReference({ workspace, signal }, window, days) {
  const predicted = async (from, to) => (await rows(ofWorkspace(workspace, 'rollups'), { from, to, columns: 'day,release,predictions' }, { signal })).filter((row) => row.release === null && row.predictions > 0).map((row) => row.day);
  const last = addDays(window.from, -1);
  const [first] = await predicted(addDays(last, 1 - days), last);
  if (first) return { from: first, to: last };
  const within = await predicted(window.from, window.to);
  const half = within.slice(0, Math.floor(within.length / 2));
  return half.length ? { from: half[0], to: half.at(-1) } : null;
}

/** In how many days at the end of a window tags are looked for. */
const DAYS_OF_TAGS = 7;

/** The tags that predictions have at the end of a window. */
export async function tagsOf({ workspace, signal }, { from, to }) {
  const first = addDays(to, 1 - DAYS_OF_TAGS);
  const days = { from: first < from ? from : first, to };
  const found = await rows(ofWorkspace(workspace, 'drift'), { ...days, reference: `${days.from}..${days.to}`, period: 'all', columns: 'release,column' }, { signal });
  return [...new Set(found.map((row) => row.column))].filter((column) => column.startsWith('tag.')).sort();
}

/** What was promoted, rolled back and retired, oldest first. */
export async function history(workspace, signal) {
  const all = await pages(ofWorkspace(workspace, 'history'), {}, 'entries', 300, { signal });
  return all.reverse();
}

/** The marks of a chart for promotions within a window. */
export function promotions(entries, { from, to }) {
  const within = (entry) => ['promote', 'rollback'].includes(entry.what) && entry.at.slice(0, 10) >= from && entry.at.slice(0, 10) <= to;
  return entries.filter(within).map((entry) => ({ x: Date.parse(entry.at) / 86_400_000, text: `${entry.about} live`, title: `${entry.what} ${entry.about} of ${entry.model} in ${entry.environment}, ${minute(entry.at)} UTC` }));
}

/** From where to where the axis of a window goes. A day alone stands for itself, but marks stand within it; the last of longer periods reaches to the end of the window. */
export function axisOf({ from, to }, group, marks) {
  const last = dayNumber(to);
  return [dayNumber(from), last + (group === 'day' && !marks.some((mark) => mark.x > last) ? 0 : 1)];
}

/** A labelled control. */
export function field(label, control, note) {
  const id = fresh('field');
  control.id = id;
  return h('div', { class: 'field' }, h('label', { for: id }, label), control, note && h('span', { class: 'quiet' }, note));
}

/** A choice among words: `[value, text]` pairs. */
export const select = (value, all, onchange) =>
  h('select', { onchange: (event) => onchange(event.target.value) }, all.map((one) => {
    const [key, text] = Array.isArray(one) ? one : [one, one];
    return h('option', { value: key, selected: key === value }, text);
  }));

/** A day. */
export const dayField = (value, onchange) => h('input', { type: 'date', value: value ?? '', onchange: (event) => onchange(event.target.value) });

/** A choice of yes or no. */
export const check = (label, on, onchange) => {
  const id = fresh('check');
  return h('div', { class: 'field check' }, h('input', { type: 'checkbox', id, checked: on, onchange: (event) => onchange(event.target.checked) }), h('label', { for: id }, label));
};

/** The usual lengths of windows; `usual` is that of the page. */
function presets({ chosen, go }, usual) {
  const now = chosen.get('from') || chosen.get('to') ? null : chosen.get('days') ?? usual;
  return h('div', { class: 'presets', role: 'group', 'aria-label': 'Window' }, PRESETS.map(([length, text]) => h('button', { type: 'button', 'aria-pressed': String(length === now), onclick: () => go({ days: length, from: null, to: null }) }, text)));
}

/** The controls of a window and of the time as of which it is read. */
export function windowControls(context, window, usual = String(USUAL)) {
  const set = (key) => (value) => context.go({ [key]: value || null, ...(key === 'as-of' ? {} : { days: null, from: key === 'from' ? value : window.from, to: key === 'to' ? value : window.to }) });
  return [
    presets(context, usual),
    field('From', dayField(window.from, set('from'))),
    field('To', dayField(window.to, set('to'))),
    asOfControl(context, window, set('as-of')),
  ];
}

/** A slider through the days from the beginning of the window on; at its right end is now. */
function asOfControl(context, window, set) {
  const id = fresh('as-of');
  const [first, last] = [dayNumber(window.from) + 1, Math.min(dayNumber(window.to) + 31, dayNumber(today()) + 1)];
  const chosen = context.chosen.get('as-of');
  const value = chosen ? Math.min(last, dayNumber(chosen.slice(0, 10))) : last;
  const says = (number) => (number >= last ? 'now' : dayOf(number));
  const said = h('output', { for: id, class: 'number' }, chosen ? chosen.slice(0, 10) : 'now');
  const slider = h('input', { type: 'range', id, min: first, max: Math.max(first + 1, last), step: 1, value, 'aria-valuetext': chosen ?? 'now' });
  slider.value = value;
  slider.addEventListener('input', () => {
    said.textContent = says(Number(slider.value));
    slider.setAttribute('aria-valuetext', says(Number(slider.value)));
  });
  slider.addEventListener('change', () => set(Number(slider.value) >= last ? null : dayOf(Number(slider.value))));
  return h('div', { class: 'field wide' }, h('label', { for: id }, 'Data as of: ', said), slider);
}

/** The bar of controls above a page. */
export const controls = (...all) => h('form', { class: 'controls', 'aria-label': 'What is shown', onsubmit: (event) => event.preventDefault() }, all);

/** A card: a heading, a chart with its table beside it, and what can be taken along. */
export function card({ title, note, chart, side, ways, data, file, wide }) {
  const takeSvg = () => {
    const svg = chart.querySelector('svg');
    if (svg) save(svgFile(svg), 'image/svg+xml', `${file}.svg`);
  };
  const tools = h('div', { class: 'tools' },
    data && h('button', { type: 'button', onclick: () => save(csv(data.columns, data.rows), 'text/csv', `${file}.csv`) }, 'CSV'),
    chart && file && h('button', { type: 'button', onclick: takeSvg }, 'SVG'));
  return h('section', { class: 'card' },
    h('div', { class: 'card-head' }, h('div', null, h('h2', null, title), note && h('p', { class: 'quiet' }, prose(note))), (data || chart) && tools),
    h('div', { class: chart && side && !wide ? 'beside' : 'stacked' }, chart, side),
    ways && shareMenu(ways));
}

/** A number with what it is. */
export const stat = (label, value, note) => h('div', { class: 'stat' }, h('dt', null, label), h('dd', null, h('span', { class: 'big' }, value), note && h('span', { class: 'quiet' }, note)));

/** Of fewer labelled predictions a metric says little. */
export const FEW = 30;

/** A metric as a headline with of how many labelled predictions it is; in grey, where those are few. */
export const metricNumber = (value, labelled) => [
  h('span', { class: `big${labelled < FEW ? ' few' : ''}` }, decimal(value)), ' ', typeof labelled === 'number' && h('span', { class: 'quiet' }, `of ${count(labelled)} labelled`)];

/** The same with what it is. */
export const metricStat = (label, value, labelled) => h('div', { class: 'stat' }, h('dt', null, label), h('dd', null, metricNumber(value, labelled)));

/** A state as a word with a shape, so that it does not depend on colour. */
export const badge = (kind, text) => h('span', { class: `badge ${kind}` }, text);

/** What is made of each of many, a few at a time. */
export async function each(all, make) {
  const made = new Array(all.length);
  let next = 0;
  const work = async () => {
    while (next < all.length) {
      const at = next;
      next += 1;
      made[at] = await make(all[at]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return made;
}

/** The models of a workspace. */
export const models = (workspace, signal) => pages('/v1/models', { of: workspace }, 'models', 500, { signal });

/** The newest 500 releases of a workspace, oldest first: ids, by which lists go, tell no order within four milliseconds. */
export async function releases(workspace, signal) {
  const all = await pages('/v1/releases', { of: workspace, order: 'newest' }, 'releases', 500, { signal });
  // Without its `Z` an instant of fewer digits is a prefix of those that are later.
  const order = (one) => `${one.created_at.slice(0, -1)} ${one.name}`;
  return all.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** What is live. */
export const live = async (workspace, signal) => (await json(ofWorkspace(workspace, 'live'), {}, { signal })).live;

/** Text that says what is live. */
export const liveText = (all) => all.map((one) => h('div', { class: 'live' }, name(one.release), h('span', { class: 'quiet' }, ' of ', name(one.model), ' in ', name(one.environment))));
