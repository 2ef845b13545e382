// The training runs of a workspace: how each went, with the parameters and metrics by which they differ, and which of them to compare.

import { json, url } from './api.js';
import { card, check, controls, field, select, stat } from './common.js';
import { h, name } from './dom.js';
import { quoted, waysOfGet } from './share.js';
import { link } from './state.js';
import { table } from './table.js';
import { MOST_RUNS, cellOf, chooser, columnsOf, listOf, listed, runsOf, secondsOf, stateOf, userOf, valueOf } from './training.js';
import { count, duration, instant } from './words.js';

/** How many parameters and metrics are shown unless others are chosen. */
const USUAL = 8;
/** The most runs that are compared. */
export const MOST_COMPARED = 16;
/** When it is looked again, in milliseconds, where the server hears of no other process. */
const EVERY = 30_000;

/** By what runs are sorted besides their parameters and metrics: the text, what is compared, and how it begins and ends. */
const SORTS = {
  started: ['Started', (run) => Date.parse(run.started_at), ['newest first', 'oldest first']],
  name: ['Name', (run) => run.name, ['Z to A', 'A to Z']],
  status: ['Status', (run) => run.status, ['Z to A', 'A to Z']],
  duration: ['Duration', secondsOf, ['longest first', 'shortest first']],
};

/** What is compared of a value: numbers as such, also where they are texts. */
const measure = (value) => (typeof value === 'string' && value !== '' && Number.isFinite(Number(value)) ? Number(value) : value);

/** The runs in an order: by `of`, from the least on or from the greatest on. Those without a value come last, numbers before texts, and else the newest first. */
export function sorted(runs, of, isLeast) {
  const rank = (value) => (value === undefined ? 2 : typeof value === 'number' ? 0 : 1);
  const order = ([a, one], [b, other]) => {
    if (rank(a) !== rank(b)) return rank(a) - rank(b);
    if (a !== b) return (a < b) === isLeast ? -1 : 1;
    return Date.parse(other.started_at) - Date.parse(one.started_at);
  };
  return runs.map((run) => [measure(of(run)), run]).sort(order).map(([, run]) => run);
}

/** The ids of the runs that are to be compared, kept while pages of one workspace are shown. */
const ticked = { workspace: null, runs: new Set() };

/** The button that compares, and the column in which runs are chosen for it. */
function comparing(workspace, runs, go) {
  if (ticked.workspace !== workspace) Object.assign(ticked, { workspace, runs: new Set() });
  const chosen = () => runs.filter((run) => ticked.runs.has(run.id));
  const button = h('button', { type: 'button', class: 'first', onclick: () => go(chosen().map((run) => run.id)) }, 'Compare');
  const said = h('span', { class: 'quiet', role: 'status' });
  const says = () => {
    const all = chosen().length;
    button.disabled = all < 2 || all > MOST_COMPARED;
    said.textContent = all > MOST_COMPARED ? `${all} runs are chosen; at most ${MOST_COMPARED} are compared.` : all < 2 ? 'Choose two runs or more.' : `${all} runs are chosen.`;
  };
  says();
  const tick = (run, is) => {
    if (is) ticked.runs.add(run.id);
    else ticked.runs.delete(run.id);
    says();
  };
  const shows = (run) => h('input', { type: 'checkbox', 'aria-label': `Compare ${run.name}`, checked: ticked.runs.has(run.id), onchange: (event) => tick(run, event.target.checked) });
  return { bar: h('div', { class: 'answers' }, button, said), column: { key: 'compare', text: 'Compare', shows } };
}

/** The name of a run, and whose part it is. */
function titled(workspace, run, names) {
  const to = (id, text, kind) => h('a', { class: kind, href: link('run', workspace, { run: id }) }, name(text));
  return h('div', { class: 'titled' }, to(run.id, run.name, 'strong'), run.parent && h('div', { class: 'quiet' }, 'part of ', to(run.parent, names.get(run.parent) ?? run.parent, null)));
}

/** What a file has of a run besides its parameters and metrics. */
const FIELDS = ['id', 'name', 'experiment', 'status', 'started_at', 'ended_at', 'user', 'parent'];

/** A run as a row of a file. */
const flat = (run, columns) => ({ ...run, user: userOf(run), ...Object.fromEntries(columns.map((column) => [column.id, valueOf(run, column)])) });

/** What is shown of all runs: the order, and the columns. */
function arranged({ chosen }, runs, columns) {
  const shown = chosen.has('columns') ? listed(chosen.get('columns')).map((id) => columns.find((column) => column.id === id)).filter(Boolean) : columns.filter((column) => column.differs).slice(0, USUAL);
  const column = columns.find((one) => one.id === chosen.get('sort'));
  const sort = column ? column.id : Object.hasOwn(SORTS, chosen.get('sort')) ? chosen.get('sort') : 'started';
  const [, of, orders] = SORTS[sort] ?? [column.text, (run) => valueOf(run, column), ['greatest first', 'least first']];
  const isLeast = chosen.get('order') ? chosen.get('order') === 'least' : ['name', 'status'].includes(sort);
  return { rows: sorted(runs, of, isLeast), shown, sort, orders, isLeast };
}

/** The controls of the page. */
function bar({ chosen, go }, { experiments, columns, sort, orders, isLeast, shown }) {
  const experiment = chosen.get('experiment') ?? '';
  const names = experiments.map((one) => one.name);
  const known = experiment && !names.includes(experiment) ? [experiment, ...names] : names;
  const sorts = [...Object.entries(SORTS).map(([id, [text]]) => [id, text]), ...columns.map((column) => [column.id, column.text])];
  return controls(
    field('Experiment', select(experiment, [['', 'all'], ...known], (value) => go({ experiment: value || null }))),
    field('Sort by', select(sort, sorts, (value) => go({ sort: value, order: null }))),
    field('Order', select(isLeast ? 'least' : 'greatest', [['greatest', orders[0]], ['least', orders[1]]], (value) => go({ order: value }))),
    check('Archived runs too', chosen.get('archived') === 'true', (on) => go({ archived: on ? 'true' : null })),
    columns.length > 0 && chooser('Columns', columns, shown.map((column) => column.id), (ids) => go({ columns: listOf(ids) })));
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, moves } = context;
  const experiment = chosen.get('experiment');
  const [{ experiments }, found] = await Promise.all([json('/v1/experiments', { of: workspace }, { signal }), runsOf(workspace, experiment, signal)]);
  moves(['runs'], EVERY);
  const runs = chosen.get('archived') === 'true' ? found : found.filter((run) => !run.archived_at);
  const columns = columnsOf(runs);
  const { rows, shown, ...order } = arranged(context, runs, columns);
  const { bar: compare, column: choice } = comparing(workspace, rows, (ids) => {
    location.hash = link('compared', workspace, { runs: ids.join(',') });
  });
  const names = new Map(found.map((run) => [run.id, run.name]));
  const isCut = found.length >= MOST_RUNS;
  const all = [
    choice,
    { key: 'name', text: 'Run', shows: (run) => titled(workspace, run, names) },
    { key: 'status', text: 'Status', shows: stateOf },
    { key: 'started_at', text: 'Started', shows: (run) => instant(run.started_at) },
    { key: 'duration', text: 'Duration', number: true, shows: (run) => duration(secondsOf(run)) },
    { key: 'user', text: 'User', shows: (run) => (userOf(run) ? name(userOf(run)) : '–') },
    ...(experiment ? [] : [{ key: 'experiment', text: 'Experiment' }]),
    ...shown.map((column) => ({ key: column.id, text: name(column.name), number: column.kind === 'metric', shows: (run) => cellOf(run, column) })),
  ];
  return [
    bar(context, { experiments, columns, shown, ...order }),
    h('dl', { class: 'stats' },
      stat('Runs', count(runs.length), isCut ? 'the newest ones' : null),
      ...['running', 'failed'].map((status) => stat(`That ${status === 'running' ? 'go on' : 'failed'}`, count(runs.filter((run) => run.status === status).length))),
      stat('Experiments', count(experiments.length))),
    card({
      title: experiment ? ['Runs of ', name(experiment)] : 'All runs',
      note: isCut ? `Of the newest ${MOST_RUNS}; \`almanac run list\` has more.` : 'Of metrics the latest value is shown.',
      side: [runs.length > 1 && compare, table({ caption: 'Runs', rows, columns: all, empty: 'There are no runs yet. `almanac run create` makes one, and so do clients of MLflow.' })],
      data: { columns: [...FIELDS, ...columns.map((column) => column.id)], rows: rows.map((run) => flat(run, columns)) },
      file: `${workspace.replace('/', '-')}-runs`,
      ways: waysOfGet(`almanac run list -w ${workspace}${experiment ? ` --experiment ${quoted(experiment)}` : ''}`, url('/v1/runs', { of: workspace, experiment })),
    }),
  ];
}
