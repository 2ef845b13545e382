// Training runs: how each went, with the parameters and metrics by which they differ; one of them step by step; some side by side; and where links of MLflow's clients lead.

import { Problem, json, link, pages, url } from './api.js';
import { barChart, colour, lineChart } from './chart.js';
import { badge, card, check, controls, each, field, releases, select, stat } from './common.js';
import { h, name, table } from './dom.js';
import { quoted, waysOfGet } from './share.js';
import { count, cut, decimal, duration, instant, many } from './words.js';

/** The most runs that are listed. */
const MOST_RUNS = 500;
/** The most boxes among which somebody chooses. */
const MOST_BOXES = 200;

const STATES = { finished: 'good', failed: 'bad', killed: 'bad', running: 'warn' };

/** How a run is going, as a badge, and whether it is archived. */
const stateOf = (run) => [badge(STATES[run.status] ?? 'none', run.status), run.archived_at ? [' ', badge('none', 'archived')] : null];

/** For how many seconds a run went on, or has gone on so far. */
const secondsOf = (run) => ((run.ended_at ? Date.parse(run.ended_at) : Date.now()) - Date.parse(run.started_at)) / 1_000;

/** Who began a run, as MLflow's clients say it. */
const userOf = (run) => run.tags['mlflow.user'] || null;

/** Where a run is. A workspace is one part of this path. */
const pathOf = (workspace, run) => `/v1/runs/${encodeURIComponent(workspace)}/${encodeURIComponent(run)}`;

/** The newest runs of an experiment, or of all, newest first. */
const runsOf = (workspace, experiment, signal) => pages('/v1/runs', { of: workspace, experiment }, 'runs', MOST_RUNS, { signal });

/** What an address lists, and how it lists it: as the keys of a query, since names may hold any sign. An address keeps no empty words, so `&` says that nothing is chosen. */
export const listed = (text) => [...new URLSearchParams(text).keys()];
export const listOf = (all) => new URLSearchParams(all.map((one) => [one, ''])).toString() || '&';

/** The value of a column of a run; `undefined`, where the run has none. */
export function valueOf(run, { kind, name: key }) {
  const all = kind === 'metric' ? run.metrics : run.params;
  if (!Object.hasOwn(all, key)) return undefined;
  return kind === 'metric' ? all[key].value : all[key];
}

/** A value as a cell has it. */
function cellOf(run, column) {
  const value = valueOf(run, column);
  return column.kind === 'metric' ? decimal(value) : value === undefined ? '–' : name(cut(value));
}

/** What a service measures of its machine stands after what was trained for. */
const isOfMachine = (column) => column.kind === 'metric' && column.name.startsWith('system/');

/** The metrics and parameters of runs as columns. Those that differ between the runs come first. */
export function columnsOf(runs) {
  const found = new Map();
  for (const run of runs) {
    for (const kind of ['metric', 'param']) {
      for (const key of Object.keys(kind === 'metric' ? run.metrics : run.params)) {
        const id = `${kind}.${key}`;
        if (!found.has(id)) found.set(id, { id, kind, name: key, text: `${kind === 'metric' ? 'metric' : 'parameter'} ${key}`, values: new Set(), runs: 0 });
        const column = found.get(id);
        column.values.add(valueOf(run, column));
        column.runs += 1;
      }
    }
  }
  const all = [...found.values()].map(({ values, runs: having, ...column }) => ({ ...column, differs: values.size > 1 || having < runs.length }));
  const order = (column) => [column.differs ? 0 : 1, isOfMachine(column) ? 1 : 0, column.kind, column.name];
  return all.map((column) => [order(column), column]).sort(([a], [b]) => {
    const at = a.findIndex((part, n) => part !== b[n]);
    return at < 0 ? 0 : a[at] < b[at] ? -1 : 1;
  }).map(([, column]) => column);
}

/** A disclosure with a box for each of `all`, `{ id, text }`; `chosen` are the ids of those that are on. It stays open while its page is made again. */
function chooser(label, all, chosen, onchange) {
  const open = [...document.querySelectorAll('details.chooser')].find((one) => one.dataset.of === label)?.open;
  const on = new Set(chosen);
  const change = (id) => (is) => {
    if (is) on.add(id);
    else on.delete(id);
    onchange([...on]);
  };
  const boxes = all.slice(0, MOST_BOXES).map(({ id, text }) => check(name(text), on.has(id), change(id)));
  return h('details', { class: 'chooser', 'data-of': label, open },
    h('summary', null, `${label}: ${on.size} of ${all.length}`),
    h('div', { class: 'boxes', role: 'group', 'aria-label': label }, boxes),
    all.length > MOST_BOXES && h('p', { class: 'quiet' }, `The first ${MOST_BOXES} can be chosen.`));
}

/** The most values of a metric that are read, and the most of them that a line is drawn through. */
const MOST_VALUES = 10_000;
const MOST_POINTS = 1_000;
/** The most points that are drawn as dots as well. */
const MOST_DOTS = 60;

/** The names that stand for a folder in a path. Browsers take them out of it, however they are written. */
const FOLDERS = ['.', '..'];

/** The values of a metric of a run by step, those of one step as they came; and whether there are more of them. Where it cannot be had, the `problem` says why: the other metrics are drawn all the same. */
export async function historyOf(workspace, run, metric, signal) {
  const without = (problem) => ({ points: [], isCut: false, problem });
  if (FOLDERS.includes(metric)) return without(`The history of \`${metric}\` cannot be asked for: in an address this name stands for a folder, and browsers take it out.`);
  try {
    const { points, next_cursor: next } = await json(`${pathOf(workspace, run)}/metrics/${encodeURIComponent(metric)}`, { limit: MOST_VALUES }, { signal });
    return { points: [...points].sort((a, b) => (a.step ?? 0) - (b.step ?? 0)), isCut: Boolean(next) };
  } catch (error) {
    // Who is not signed in any more is asked for a token by the frame.
    if (!(error instanceof Problem) || error.status === 401) throw error;
    return without(`The history of \`${metric}\` cannot be shown: ${error.message}`);
  }
}

/** Whether steps tell the values of any of these histories apart, or there are none to be told apart. */
const haveSteps = (histories) => histories.some(({ points }) => new Set(points.map((point) => point.step)).size > 1) || histories.every(({ points }) => points.length < 2);

/** Where each value stands on the axis: at its step, or else by the order in which it came. What is no number is a gap. */
function placed({ points }, bySteps) {
  return points.map(({ step, value, at }, n) => ({ x: bySteps ? step ?? 0 : n + 1, y: typeof value === 'number' ? value : null, value, at }));
}

/** Some of many points, evenly, and the last. */
const thinned = (points, every) => points.filter((point, at) => at % every === 0 || at === points.length - 1);

/** Histories, `{ name, points, isCut, problem }`, as a chart with a line each, as rows with a place and a value for each, and what there is to say of them; and why some cannot be had. */
export function drawn(metric, histories, height) {
  const bySteps = haveSteps(histories);
  const all = histories.map((history) => placed(history, bySteps));
  const every = Math.ceil(Math.max(1, ...all.map((points) => points.length)) / MOST_POINTS);
  const series = histories.map(({ name }, at) => ({ name, points: thinned(all[at], every), colour: histories[at].colour ?? at }));
  const rows = new Map();
  all.forEach((points, at) => points.forEach(({ x, value, at: when }) => {
    const key = histories.length > 1 ? x : rows.size;
    rows.set(key, { ...rows.get(key), x, at: when, [`value${at}`]: value });
  }));
  const axis = bySteps ? 'Step' : 'Number';
  const isLine = all.some((points) => points.filter((point) => point.y !== null).length > 1);
  const says = [
    bySteps ? 'by step' : 'by the order in which the values came',
    every > 1 && `a line is drawn through one of ${every} values`,
    histories.some((history) => history.isCut) && `of the first ${count(MOST_VALUES)} values`,
  ];
  const problems = new Set(histories.map((history) => history.problem).filter(Boolean));
  return {
    axis,
    problem: [...problems].join(' ') || null,
    rows: [...rows.values()].sort((a, b) => a.x - b.x),
    note: says.filter(Boolean).join('; '),
    chart: isLine ? lineChart({ title: `${metric} ${bySteps ? 'by step' : 'by number'} of ${histories.length > 1 ? many(histories.length, 'run') : histories[0].name}`, y: metric, x: axis.toLowerCase(), series, at: (x) => `${axis} ${count(x)}`, legend: histories.length > 1, dots: every === 1 && series.every((one) => one.points.length <= MOST_DOTS), height }) : null,
  };
}

/** How many parameters and metrics are shown unless others are chosen. */
const USUAL_COLUMNS = 8;
/** The most runs that are compared. */
const MOST_COMPARED = 16;
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
  const shown = chosen.has('columns') ? listed(chosen.get('columns')).map((id) => columns.find((column) => column.id === id)).filter(Boolean) : columns.filter((column) => column.differs).slice(0, USUAL_COLUMNS);
  const column = columns.find((one) => one.id === chosen.get('sort'));
  const sort = column ? column.id : Object.hasOwn(SORTS, chosen.get('sort')) ? chosen.get('sort') : 'started';
  const [, of, orders] = SORTS[sort] ?? [column.text, (run) => valueOf(run, column), ['greatest first', 'least first']];
  const isLeast = chosen.get('order') ? chosen.get('order') === 'least' : ['name', 'status'].includes(sort);
  return { rows: sorted(runs, of, isLeast), shown, sort, orders, isLeast };
}

/** The controls of the page. */
function runControls({ chosen, go }, { experiments, columns, sort, orders, isLeast, shown }) {
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

/** The page of all runs. */
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
    runControls(context, { experiments, columns, shown, ...order }),
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

/** How many metrics are drawn unless others are chosen. */
const USUAL_METRICS = 4;
/** The most letters of a parameter or a tag. */
const MOST_OF_TEXT = 1_000;
/** When a run that goes on is looked at again, in milliseconds, where the server hears of no other process. */
const EVERY_OF_ONE = 10_000;

/** The run of an id; where it is not there, nothing but the id. */
async function parentOf(workspace, id, signal) {
  try {
    return id && (await json(pathOf(workspace, id), {}, { signal }));
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { id, name: id };
    throw error;
  }
}

/** What is said of a run, as terms and what they are. */
function facts(workspace, run, parent, became) {
  const to = (page, words, text) => h('a', { href: link(page, workspace, words) }, name(text));
  const tag = (key) => run.tags[key] && name(cut(run.tags[key], MOST_OF_TEXT));
  const all = [
    ['Experiment', to('runs', { experiment: run.experiment }, run.experiment)],
    ['Id', h('code', null, run.id)],
    ['Part of', parent && to('run', { run: parent.id }, parent.name)],
    ['Started', instant(run.started_at)],
    ['Ended', run.ended_at && instant(run.ended_at)],
    ['Snapshot', run.snapshot && name(run.snapshot)],
    ['Source', tag('mlflow.source.name')],
    ['Commit', tag('mlflow.source.git.commit') ?? tag('git.commit')],
    ['Became release', became.length > 0 && became.map((release, at) => [at > 0 && ', ', to('metrics', { release: release.name }, release.name), h('span', { class: 'quiet' }, ' of ', name(release.model))])],
    ['Artifacts', tag('almanac.artifacts'), 'long'],
  ];
  return h('dl', { class: 'facts' }, all.filter(([, what]) => what).map(([term, what, kind]) => h('div', { class: kind }, h('dt', null, term), h('dd', null, what))));
}

/** A metric step by step. */
function history(workspace, run, metric, { chart, rows, axis, note, problem }) {
  const columns = [
    { key: 'x', text: axis, number: true, shows: (row) => count(row.x) },
    { key: 'value0', text: 'Value', number: true },
    { key: 'at', text: 'At', shows: (row) => instant(row.at) },
  ];
  const words = `almanac run history ${run.id} ${quoted(metric)} -w ${workspace}`;
  return card({
    title: name(metric),
    note: problem ? null : note,
    chart,
    side: table({ caption: `${metric} of ${run.name}`, rows: [...rows].reverse(), columns, empty: problem ?? 'There are no values of it any more: the days of which they are have expired.' }),
    data: problem ? null : { columns: ['step', 'value', 'at'], rows: rows.map(({ x, value0, at }) => ({ step: x, value: value0, at })) },
    file: `${run.id}-${metric.replace(/[^\w.-]+/g, '-')}`,
    ways: problem ? null : waysOfGet(words, `${pathOf(workspace, run.id)}/metrics/${encodeURIComponent(metric)}`),
  });
}

/** The metrics that are drawn: those that are chosen, else of the first ones those with more than one value, or with a problem. */
async function histories({ workspace, chosen, signal }, run, metrics) {
  const names = chosen.has('metrics') ? listed(chosen.get('metrics')).filter((key) => metrics.includes(key)) : metrics.slice(0, USUAL_METRICS);
  const all = await each(names, async (metric) => ({ metric, ...drawn(metric, [{ name: run.name, ...(await historyOf(workspace, run.id, metric, signal)) }], 340) }));
  return chosen.has('metrics') ? all : all.filter((one) => one.chart || one.problem);
}

/** Texts by name: parameters, or tags. */
function texts(title, of, all, empty) {
  const rows = Object.entries(all).map(([key, value]) => ({ key, value }));
  return card({
    title,
    side: table({ caption: `${title} of ${of}`, rows, empty, columns: [{ key: 'key', text: 'Name' }, { key: 'value', text: 'Value', shows: (row) => name(cut(row.value, MOST_OF_TEXT)) }] }),
  });
}

/** The page of one run. */
export async function runPage(context) {
  const { workspace, chosen, signal, go, moves } = context;
  const id = chosen.get('run');
  if (!id) throw new Problem(404, 'The address names no run.');
  const [run, all] = await Promise.all([json(pathOf(workspace, id), {}, { signal }), releases(workspace, signal)]);
  const metrics = columnsOf([run]).filter((column) => column.kind === 'metric').map((column) => column.name);
  const [parent, shown] = await Promise.all([parentOf(workspace, run.parent, signal), histories(context, run, metrics)]);
  if (!run.ended_at) moves(['runs'], EVERY_OF_ONE);
  const became = all.filter((release) => release.attributes?.run === run.id);
  const latest = metrics.map((metric) => ({ metric, ...run.metrics[metric] }));
  return [
    h('dl', { class: 'stats' },
      stat('Status', stateOf(run)), stat('Duration', duration(secondsOf(run)), run.ended_at ? null : 'so far'),
      stat('User', userOf(run) ? name(userOf(run)) : '–'), stat('Metrics', count(metrics.length)), stat('Parameters', count(Object.keys(run.params).length))),
    card({ title: name(run.name), side: facts(workspace, run, parent, became), ways: waysOfGet(`almanac run show ${run.id} -w ${workspace}`, pathOf(workspace, run.id)) }),
    card({
      title: 'Metrics',
      note: 'The latest value of each: that of the greatest step, and of that the one measured last.',
      side: table({ caption: `Metrics of ${run.name}`, rows: latest, empty: 'It has no metrics yet.', columns: [
        { key: 'metric', text: 'Metric' },
        { key: 'value', text: 'Latest', number: true, shows: (row) => decimal(row.value) },
        { key: 'step', text: 'Step', number: true, shows: (row) => count(row.step) },
        { key: 'at', text: 'At', shows: (row) => instant(row.at) },
      ] }),
      data: { columns: ['metric', 'value', 'step', 'at'], rows: latest },
      file: `${run.id}-metrics`,
    }),
    metrics.length > 0 && controls(chooser('Metrics step by step', metrics.map((metric) => ({ id: metric, text: metric })), shown.map((one) => one.metric), (names) => go({ metrics: listOf(names) }))),
    shown.map((one) => history(workspace, run, one.metric, one)),
    h('div', { class: 'grid-2' },
      texts('Parameters', run.name, run.params, 'It was given no parameters.'),
      texts('Tags', run.name, run.tags, 'It has no tags.')),
  ];
}

/** How many letters of an id tell runs of one name apart: the first ones are those of a time. */
const LETTERS = 6;

/** What each run is called: its name, with the end of its id where several have it. */
function called(runs) {
  return runs.map((run) => (runs.some((other) => other !== run && other.name === run.name) ? `${run.name} (…${run.id.slice(-LETTERS)})` : run.name));
}

/** The table: a row for each column that differs, or for all, and a column for each run. */
function differences(workspace, runs, names, columns, isWhole) {
  const own = [
    { kind: 'run', name: 'status', cell: stateOf },
    { kind: 'run', name: 'started', cell: (run) => instant(run.started_at) },
    { kind: 'run', name: 'duration', cell: (run) => duration(secondsOf(run)) },
    ...(new Set(runs.map((run) => run.experiment)).size > 1 ? [{ kind: 'run', name: 'experiment', cell: (run) => name(run.experiment) }] : []),
  ];
  const found = columns.filter((column) => isWhole || column.differs).map((column) => ({ ...column, kind: column.kind === 'param' ? 'parameter' : 'metric', cell: (run) => cellOf(run, column) }));
  const head = (run, at) => [h('span', { class: `swatch ${colour(at)}` }), ' ', h('a', { href: link('run', workspace, { run: run.id }) }, name(names[at]))];
  return table({ caption: 'Runs side by side', rows: [...own, ...found], columns: [
    { key: 'kind', text: 'Of' },
    { key: 'name', text: 'Name' },
    ...runs.map((run, at) => ({ key: `run${at}`, text: head(run, at), shows: (row) => row.cell(run) })),
  ] });
}

/** A metric of all runs that have it: lines, or bars where no run has more than one value. */
async function metricCard({ workspace, signal }, runs, names, metric) {
  const column = { kind: 'metric', name: metric };
  const having = runs.map((run, at) => ({ run, at, name: names[at] })).filter(({ run }) => valueOf(run, column) !== undefined);
  const histories = await each(having, async ({ run, at, name: text }) => ({ name: text, colour: at, ...(await historyOf(workspace, run.id, metric, signal)) }));
  const { chart, rows, axis, note, problem } = drawn(metric, histories, 340);
  const bars = having.map(({ run, at, name: text }) => ({ name: text, value: valueOf(run, column), colour: at })).filter((bar) => typeof bar.value === 'number');
  const of = (at) => `value${at}`;
  return card({
    title: name(metric),
    note: [chart ? note : 'the latest value of each run', rows.length > 0 && problem].filter(Boolean).join('. '),
    chart: chart ?? (bars.length ? barChart({ title: `${metric} of ${many(bars.length, 'run')}`, x: metric, bars }) : null),
    side: table({ caption: `${metric} of each run`, rows: [...rows].reverse(), empty: problem ?? undefined, columns: [
      { key: 'x', text: axis, number: true, shows: (row) => count(row.x) },
      ...having.map((one, at) => ({ key: of(at), text: name(one.name), number: true, shows: (row) => decimal(row[of(at)]) })),
    ] }),
    wide: having.length > 3,
    data: { columns: ['step', ...having.map((one) => one.run.id)], rows: rows.map((row) => ({ step: row.x, ...Object.fromEntries(having.map((one, at) => [one.run.id, row[of(at)]])) })) },
    file: `${workspace.replace('/', '-')}-runs-${metric.replace(/[^\w.-]+/g, '-')}`,
  });
}

/** The page of several runs. */
export async function comparedPage(context) {
  const { workspace, chosen, signal, go } = context;
  const ids = [...new Set((chosen.get('runs') ?? '').split(',').filter(Boolean))];
  if (ids.length < 2 || ids.length > MOST_COMPARED) throw new Problem(400, `Two to ${MOST_COMPARED} runs are compared; the address names ${ids.length}. Choose others on the page of all runs.`);
  const runs = await each(ids, (id) => json(pathOf(workspace, id), {}, { signal }));
  const names = called(runs);
  const columns = columnsOf(runs);
  const metrics = columns.filter((column) => column.kind === 'metric').map((column) => column.name);
  const metric = metrics.includes(chosen.get('metric')) ? chosen.get('metric') : metrics[0];
  const isWhole = chosen.get('whole') === 'true';
  const same = columns.filter((column) => !column.differs).length;
  return [
    controls(
      metric !== undefined && field('Metric', select(metric, metrics, (value) => go({ metric: value }))),
      check('Show identical rows', isWhole, (on) => go({ whole: on ? 'true' : null }))),
    card({
      title: 'What differs',
      note: same ? `${many(same, 'parameter or metric', 'parameters and metrics')} ${same === 1 ? 'is' : 'are'} the same in all runs.` : null,
      side: differences(workspace, runs, names, columns, isWhole),
      data: { columns: ['name', ...ids], rows: columns.map((column) => ({ name: column.text, ...Object.fromEntries(runs.map((run) => [run.id, valueOf(run, column)])) })) },
      file: `${workspace.replace('/', '-')}-runs-compared`,
    }),
    metric !== undefined && (await metricCard(context, runs, names, metric)),
  ];
}

/** What is answered; `null`, where it is not there or nothing for the caller. */
async function found(path, parameters, signal) {
  try {
    return await json(path, parameters, { signal });
  } catch (error) {
    if (error instanceof Problem && [400, 403, 404].includes(error.status)) return null;
    throw error;
  }
}

/** The workspaces of these that have the experiment, with its name there. */
async function having(workspaces, experiment, signal) {
  const all = await each(workspaces, async (workspace) => {
    const answer = await found('/v1/experiments', { of: workspace }, signal);
    const known = answer?.experiments.find((one) => one.id === experiment);
    return known && { workspace, name: known.name };
  });
  return all.filter(Boolean);
}

/** The places that a link may mean, as addresses of pages. */
async function places({ more: [experiment, part, run], signal }, named) {
  if (named && !experiment) return [{ workspace: named, href: link('runs', named) }];
  const isRun = part === 'runs' && run;
  const to = ({ workspace, name: of }) => ({ workspace, href: isRun ? link('run', workspace, { run }) : link('runs', workspace, { experiment: of }) });
  if (named && isRun) return [to({ workspace: named })];
  const workspaces = named ? [named] : (await json('/v1/workspaces', {}, { signal })).workspaces.map((one) => one.path);
  const all = await having(workspaces, experiment, signal);
  if (!isRun || all.length < 2) return all.map(to);
  // Experiments of one name have one id in all workspaces; a run is in one.
  const theirs = await each(all, async (one) => (await found(pathOf(one.workspace, run), {}, signal)) && one);
  return theirs.filter(Boolean).map(to);
}

/** The page of a link: it gives way to the one that is meant, and asks where several may be. */
export async function linkedPage(context) {
  const named = new URLSearchParams(location.search).get('workspace');
  const all = await places(context, named);
  if (!all.length) throw new Problem(404, `No workspace that you may see has this ${context.more[1] === 'runs' ? 'run' : 'experiment'}. The link may be of another server.`);
  if (all.length === 1) {
    location.replace(`/${all[0].href}`);
    return [h('h1', null, 'Runs'), h('p', { class: 'loading' }, 'Loading')];
  }
  return [
    h('h1', null, 'Runs'),
    card({
      title: 'Which workspace is meant?',
      note: 'Several have an experiment of this name.',
      side: table({ caption: 'Workspaces with this experiment', rows: all, columns: [{ key: 'workspace', text: 'Workspace', shows: (row) => h('a', { class: 'strong', href: row.href }, name(row.workspace)) }] }),
    }),
  ];
}
