// Several training runs side by side: the parameters and metrics by which they differ, and one metric with a line for each run.

import { Problem, json } from './api.js';
import { barChart, colour } from './chart.js';
import { card, check, controls, each, field, select } from './common.js';
import { h, name } from './dom.js';
import { drawn, historyOf } from './histories.js';
import { MOST_COMPARED } from './runs.js';
import { link } from './state.js';
import { table } from './table.js';
import { cellOf, columnsOf, pathOf, secondsOf, stateOf, valueOf } from './training.js';
import { count, duration, decimal, instant, many } from './words.js';

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
    chart: chart ?? (bars.length ? barChart({ title: `${metric} of ${many(bars.length, 'run')}`, bars }) : null),
    side: table({ caption: `${metric} of each run`, rows: [...rows].reverse(), empty: problem ?? undefined, columns: [
      { key: 'x', text: axis, number: true, shows: (row) => count(row.x) },
      ...having.map((one, at) => ({ key: of(at), text: name(one.name), number: true, shows: (row) => decimal(row[of(at)]) })),
    ] }),
    wide: having.length > 3,
    data: { columns: ['step', ...having.map((one) => one.run.id)], rows: rows.map((row) => ({ step: row.x, ...Object.fromEntries(having.map((one, at) => [one.run.id, row[of(at)]])) })) },
    file: `${workspace.replace('/', '-')}-runs-${metric.replace(/[^\w.-]+/g, '-')}`,
  });
}

/** The page. */
export async function page(context) {
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
      check('Also what is the same', isWhole, (on) => go({ whole: on ? 'true' : null }))),
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
