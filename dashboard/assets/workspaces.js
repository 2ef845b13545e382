// The workspaces: what is live, how far behind, which alerts fire, and how much comes.

import { Problem, json, ofWorkspace, text } from './api.js';
import { badge, card, each, lastDay, live, liveText, stat, volume } from './common.js';
import { sparkline } from './chart.js';
import { h, name } from './dom.js';
import { waysOfGet } from './share.js';
import { link } from './state.js';
import { table } from './table.js';
import { compact, count, many } from './words.js';

const MOST = 200;
const SPARK_DAYS = 120;
/** When it is looked again, in milliseconds. */
const EVERY = 30_000;

/** Metrics of the service itself, which only those may read who may read the server. */
export async function service(signal) {
  try {
    const lines = (await text('/metrics', {}, { signal })).split('\n');
    const metrics = {};
    for (const line of lines) {
      const found = /^(almanac_projector_\w+)(?:\{[^}]*\})? (\S+)$/.exec(line);
      if (found) metrics[found[1]] = Number(found[2]);
    }
    return metrics;
  } catch (error) {
    if (error instanceof Problem && [403, 404].includes(error.status)) return null;
    throw error;
  }
}

async function about(workspace, signal) {
  const [alive, rules, days] = await Promise.all([
    live(workspace.path, signal),
    json(ofWorkspace(workspace.path, 'alert-rules'), {}, { signal }),
    volume(workspace.path, signal),
  ]);
  const firing = rules.rules.filter((rule) => rule.state === 'firing');
  const total = days.reduce((sum, day) => sum + day.predictions, 0);
  return { ...workspace, live: alive, rules: rules.rules.length, firing: firing.length, days, total, last: lastDay(days) ?? null };
}

const alerts = (one) => (one.firing ? badge('bad', many(one.firing, 'alert fires', 'alerts fire')) : badge('good', one.rules ? 'none fires' : 'no rules'));

/** The page. */
export async function page({ signal, again }) {
  const [{ workspaces }, metrics] = await Promise.all([json('/v1/workspaces', {}, { signal }), service(signal)]);
  const all = await each(workspaces.slice(0, MOST), (workspace) => about(workspace, signal));
  const isCut = workspaces.length > MOST;
  const ofShown = isCut ? `of the first ${MOST} workspaces` : null;
  again(EVERY);
  const lag = metrics && (metrics.almanac_projector_lag_segments ?? null);
  const columns = [
    { key: 'path', text: 'Workspace', shows: (row) => h('a', { class: 'strong', href: link('metrics', row.path) }, name(row.path)) },
    { key: 'live', text: 'Live', shows: (row) => (row.live.length ? liveText(row.live) : h('span', { class: 'quiet' }, 'nothing')) },
    { key: 'firing', text: 'Alerts', shows: (row) => h('a', { class: 'plain', href: link('alerts', row.path) }, alerts(row)) },
    { key: 'last', text: 'Last day', shows: (row) => row.last ?? '–' },
    { key: 'total', text: 'Predictions', number: true, shows: (row) => count(row.total) },
    { key: 'spark', text: 'Volume', shows: (row) => {
      const values = row.days.slice(-SPARK_DAYS).map((day) => day.predictions);
      return values.length ? sparkline(values, `Predictions a day, the last ${values.length} days: ${compact(Math.min(...values))} to ${compact(Math.max(...values))}`) : h('span', { class: 'quiet' }, 'no events');
    } },
  ];
  const flat = all.map((one) => ({ workspace: one.path, live: one.live.map((live) => `${live.release}/${live.environment}`).join(' '), firing: one.firing, last_day: one.last, predictions: one.total }));
  return [
    h('h1', null, 'Workspaces'),
    h('dl', { class: 'stats' },
      stat('Workspaces', count(workspaces.length)),
      stat('Live releases', count(all.reduce((sum, one) => sum + one.live.length, 0)), ofShown),
      stat('Alerts firing', count(all.reduce((sum, one) => sum + one.firing, 0)), ofShown),
      lag !== null && stat('Lag', lag === 0 ? 'none' : many(lag, 'segment'), lag === 0 ? 'all is folded' : `${Math.round(metrics.almanac_projector_lag_seconds ?? 0)} s`)),
    card({
      title: isCut ? `The first ${MOST} of ${many(workspaces.length, 'workspace')}` : 'All workspaces',
      note: 'Predictions are those of the latest year that has any.',
      side: table({ caption: 'Workspaces', columns, rows: all, empty: 'There is no workspace that you may see yet. `almanac workspace create credit/prod` makes one.' }),
      data: { columns: ['workspace', 'live', 'firing', 'last_day', 'predictions'], rows: flat },
      file: 'workspaces',
      ways: waysOfGet('almanac workspace list', '/v1/workspaces'),
    }),
  ];
}
