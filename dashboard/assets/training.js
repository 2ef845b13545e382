// What the pages of training runs share: runs as the API has them, their parameters and metrics as columns, and what is chosen of many.

import { pages } from './api.js';
import { badge, check } from './common.js';
import { h, name } from './dom.js';
import { cut, decimal } from './words.js';

/** The most runs that are listed. */
export const MOST_RUNS = 500;
/** The most boxes among which somebody chooses. */
const MOST_BOXES = 200;

const STATES = { finished: 'good', failed: 'bad', killed: 'bad', running: 'warn' };

/** How a run is going, as a badge, and whether it is archived. */
export const stateOf = (run) => [badge(STATES[run.status] ?? 'none', run.status), run.archived_at ? [' ', badge('none', 'archived')] : null];

/** For how many seconds a run went on, or has gone on so far. */
export const secondsOf = (run) => ((run.ended_at ? Date.parse(run.ended_at) : Date.now()) - Date.parse(run.started_at)) / 1_000;

/** Who began a run, as MLflow's clients say it. */
export const userOf = (run) => run.tags['mlflow.user'] || null;

/** Where a run is. A workspace is one part of this path. */
export const pathOf = (workspace, run) => `/v1/runs/${encodeURIComponent(workspace)}/${encodeURIComponent(run)}`;

/** The newest runs of an experiment, or of all, newest first. */
export const runsOf = (workspace, experiment, signal) => pages('/v1/runs', { of: workspace, experiment }, 'runs', MOST_RUNS, { signal });

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
export function cellOf(run, column) {
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
export function chooser(label, all, chosen, onchange) {
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
