// One training run: how it went, what it was given, and its metrics step by step.

import { Problem, json } from './api.js';
import { card, controls, each, releases, stat } from './common.js';
import { h, name } from './dom.js';
import { drawn, historyOf } from './histories.js';
import { quoted, waysOfGet } from './share.js';
import { link } from './state.js';
import { table } from './table.js';
import { chooser, columnsOf, listOf, listed, pathOf, secondsOf, stateOf, userOf } from './training.js';
import { count, cut, duration, decimal, instant } from './words.js';

/** How many metrics are drawn unless others are chosen. */
const USUAL = 4;
/** The most letters of a parameter or a tag. */
const MOST_LETTERS = 1_000;
/** When a run that goes on is looked at again, in milliseconds, where the server hears of no other process. */
const EVERY = 10_000;

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
  const tag = (key) => run.tags[key] && name(cut(run.tags[key], MOST_LETTERS));
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
  const names = chosen.has('metrics') ? listed(chosen.get('metrics')).filter((key) => metrics.includes(key)) : metrics.slice(0, USUAL);
  const all = await each(names, async (metric) => ({ metric, ...drawn(metric, [{ name: run.name, ...(await historyOf(workspace, run.id, metric, signal)) }], 340) }));
  return chosen.has('metrics') ? all : all.filter((one) => one.chart || one.problem);
}

/** Texts by name: parameters, or tags. */
function texts(title, of, all, empty) {
  const rows = Object.entries(all).map(([key, value]) => ({ key, value }));
  return card({
    title,
    side: table({ caption: `${title} of ${of}`, rows, empty, columns: [{ key: 'key', text: 'Name' }, { key: 'value', text: 'Value', shows: (row) => name(cut(row.value, MOST_LETTERS)) }] }),
  });
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go, moves } = context;
  const id = chosen.get('run');
  if (!id) throw new Problem(404, 'The address names no run.');
  const [run, all] = await Promise.all([json(pathOf(workspace, id), {}, { signal }), releases(workspace, signal)]);
  const metrics = columnsOf([run]).filter((column) => column.kind === 'metric').map((column) => column.name);
  const [parent, shown] = await Promise.all([parentOf(workspace, run.parent, signal), histories(context, run, metrics)]);
  if (!run.ended_at) moves(['runs'], EVERY);
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
