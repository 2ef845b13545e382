// How the service fares: how far behind the projector is, what cannot be read or written, and what comes over HTTP.

import { Problem, json, text } from './api.js';
import { badge, card, stat } from './common.js';
import { h, name, table } from './dom.js';
import { waysOfGet } from './share.js';
import { compact, count, decimal, many } from './words.js';

const EVERY = 5_000;
const PARTS = ['projector', 'append', 'gate', 'query', 'http', 'sqlite', 'table', 'webhook', 'quota', 'alert'];

/** The samples of an exposition, but for the buckets of histograms. */
function samples(exposition) {
  const all = [];
  for (const line of exposition.split('\n')) {
    const found = /^almanac_(\w+?)(\{[^}]*\})? (\S+)$/.exec(line);
    if (found && !found[1].endsWith('_bucket')) all.push({ name: found[1], labels: (found[2] ?? '').slice(1, -1), value: Number(found[3]) });
  }
  return all;
}

/** For how long something has been, in seconds. */
const ago = (seconds) => `${seconds.toFixed(1)} s`;

async function ready(signal) {
  try {
    return { good: true, says: (await text('/readyz', {}, { signal })).trim() };
  } catch (error) {
    // Behind a load balancer probes are not found from outside.
    if (error instanceof Problem && error.status === 404) return null;
    if (error instanceof Problem) return { good: false, says: error.message };
    throw error;
  }
}

/** The page, looked at again every five seconds while it is shown. */
export async function page({ signal, again }) {
  const [exposition, state, { workers }] = await Promise.all([text('/metrics', {}, { signal }), ready(signal), json('/v1/workers', {}, { signal })]);
  const all = samples(exposition);
  const one = (wanted) => all.find((sample) => sample.name === wanted)?.value;
  const total = (wanted) => all.filter((sample) => sample.name === wanted).reduce((sum, sample) => sum + sample.value, 0);
  const seconds = (wanted) => (one(wanted) === undefined ? '–' : ago(one(wanted)));
  const letters = one('projector_dead_letters') ?? 0;
  again(EVERY);
  return [
    h('h1', null, 'Operate'),
    h('dl', { class: 'stats' },
      state && stat('Ready', state.good ? badge('good', 'yes') : badge('bad', 'no'), state.says === 'ready' ? null : state.says),
      stat('Lag', many(one('projector_lag_segments') ?? 0, 'segment'), seconds('projector_lag_seconds')),
      stat('Days to evaluate', count(one('projector_unevaluated_days') ?? 0)),
      stat('Dead letters', count(letters), letters ? h('code', null, 'almanac admin dead-letters list') : 'none'),
      stat('Events appended', compact(total('append_rows_total')), 'since the start'),
      stat('Requests', compact(total('http_responses_total')), 'since the start')),
    card({
      title: 'The projector',
      note: 'Time since last activity',
      side: table({ caption: 'The projector', rows: [['Heartbeat', 'projector_heartbeat_age_seconds'], ['Checkpoint', 'projector_checkpoint_age_seconds'], ['Feed of changes', 'projector_feed_age_seconds'], ['Sweep', 'projector_sweep_age_seconds']].map(([what, key]) => ({ what, age: seconds(key) })), columns: [{ key: 'what', text: 'What' }, { key: 'age', text: 'Age', number: true, shows: (row) => row.age }] }),
      ways: waysOfGet('almanac status', '/metrics'),
    }),
    card({
      title: 'Workers',
      note: 'Workers seen in the last hour',
      side: table({ caption: 'Workers', rows: workers, empty: 'No worker was seen.', columns: [{ key: 'worker', text: 'Worker' }, ...[['heartbeat_seconds_ago', 'Heartbeat', ago], ['shards', 'Shards', count], ['dirty_days', 'Days to write', count], ['oldest_dirty_seconds', 'Oldest', ago], ['cas_retries', 'Folded again', count]].map(([key, says, shows]) => ({ key, text: says, number: true, shows: (row) => shows(row[key]) }))] }),
      ways: waysOfGet('almanac status', '/v1/workers'),
    }),
    card({
      title: 'All metrics of this process',
      side: table({ caption: 'Telemetry metrics', rows: all.filter((sample) => PARTS.some((part) => sample.name.startsWith(part))).sort((a, b) => (a.name < b.name ? -1 : 1)), columns: [{ key: 'name', text: 'Metric', shows: (row) => h('code', null, name(row.name)) }, { key: 'labels', text: 'Labels', shows: (row) => name(row.labels) }, { key: 'value', text: 'Value', number: true, shows: (row) => (Number.isInteger(row.value) ? count(row.value) : decimal(row.value)) }] }),
      data: { columns: ['name', 'labels', 'value'], rows: all },
      file: 'almanac-metrics',
    }),
  ];
}
