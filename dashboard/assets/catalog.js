// What belongs to a workspace, what happened to its releases, and who changed what.

import { Problem, json, ofWorkspace, rows } from './api.js';
import { badge, card, history, liveText, stat } from './common.js';
import { h, name, table } from './dom.js';
import { waysOfGet } from './share.js';
import { addDays, count, cut, instant, today } from './words.js';

/** How many records of the audit log are shown. */
const RECORDS = 200;
/** How far back each look into the audit log reaches, in days: each log of the days is looked at. */
const BACK = [8, 128, 3_650];

/** The latest records of the audit log, latest first, and what is said where it has more. */
async function latest(workspace, signal) {
  const now = today();
  let records = [];
  for (const days of BACK) {
    const asked = { workspace, from: addDays(now, 1 - days), order: 'newest', limit: RECORDS + 1 };
    records = await rows('/v1/audit', asked, { signal });
    if (records.length > RECORDS) return { records: records.slice(0, RECORDS), says: `The latest ${RECORDS} records since ${asked.from}, of batches those with events since then; \`almanac audit\` has more.` };
  }
  return { records, says: null };
}

/** The same; `null`, where who asks may not see it. */
export async function auditLog(workspace, signal) {
  try {
    return await latest(workspace, signal);
  } catch (error) {
    if (error instanceof Problem && [400, 403].includes(error.status)) return null;
    throw error;
  }
}

/** The most values of an object that are shown. */
const MOST_VALUES = 20;

/** The values of an object by where each stands in it, such as `rule.below: 0.75`. */
const leaves = (value, path = []) => (value && typeof value === 'object' && !Array.isArray(value) ? Object.entries(value).flatMap(([key, one]) => leaves(one, [...path, key])) : [[path.join('.'), value]]);

function pairs(object) {
  const all = leaves(object ?? {}).filter(([key]) => key);
  const says = ([key, value]) => h('li', null, name(cut(`${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)));
  return all.length ? h('ul', { class: 'pairs' }, all.slice(0, MOST_VALUES).map(says), all.length > MOST_VALUES && h('li', null, '…')) : '–';
}

const attributes = (row) => pairs(row.attributes);

/** What a record of the audit log says of what something was changed to, without ids and instants, which stand in other columns. */
function changed({ after }) {
  try {
    const of = (key, value) => (/(^|_)(id|at)$/.test(key) ? undefined : value);
    return pairs(JSON.parse(after ?? '{}', of));
  } catch {
    return name(cut(after));
  }
}

const titled = { key: 'name', text: 'Name', shows: (row) => [name(row.name), row.archived_at ? [' ', badge('none', 'archived')] : null] };
const predictions = { key: 'counts', text: 'Predictions', number: true, shows: (row) => count(row.counts?.predictions ?? 0) };

/** How often it is asked for again where what moves is not heard, in milliseconds. */
const EVERY = 60_000;

/** The page. */
export async function page({ workspace, signal, moves }) {
  moves(['catalog'], EVERY);
  const path = ofWorkspace(workspace);
  const [all, entries, audit] = await Promise.all([json(path, { counts: true }, { signal }), history(workspace, signal), auditLog(workspace, signal)]);
  const file = workspace.replace('/', '-');
  return [
    h('dl', { class: 'stats' },
      stat('Models', count(all.count_of_models)), stat('Releases', count(all.count_of_releases)), stat('Configurations', count(all.count_of_configurations)), stat('Snapshots', count(all.count_of_snapshots)),
      stat('Predictions', count(all.counts.predictions ?? 0)), stat('Outcomes', count(all.counts.outcomes ?? 0))),
    all.live.length > 0 && card({ title: 'Live', side: h('div', { class: 'lives' }, liveText(all.live)) }),
    card({
      title: 'Models',
      side: table({ caption: 'Models', rows: all.models, empty: 'There are no models yet. `almanac model create` makes one.', columns: [titled, { key: 'task', text: 'Task' }, { key: 'positive_label', text: 'Positive label' }, predictions, { key: 'attributes', text: 'Attributes', shows: attributes }] }),
      ways: waysOfGet(`almanac workspace show ${workspace}`, path),
    }),
    card({
      title: 'Releases',
      side: table({ caption: 'Releases', rows: [...all.releases].reverse(), empty: 'There are no releases yet. `almanac release create` makes one.', columns: [titled, { key: 'model', text: 'Model' }, { key: 'configuration', text: 'Configuration' }, predictions, { key: 'notes', text: 'Notes' }, { key: 'attributes', text: 'Attributes', shows: attributes }] }),
      data: { columns: ['name', 'model', 'configuration', 'environment', 'author', 'commit', 'notes', 'created_at', 'archived_at'], rows: all.releases },
      file: `${file}-releases`,
    }),
    card({
      title: 'What happened',
      side: table({ caption: 'History', rows: [...entries].reverse(), empty: 'Nothing was promoted yet.', columns: [{ key: 'at', text: 'At', shows: (row) => instant(row.at) }, { key: 'what', text: 'What' }, { key: 'about', text: 'About' }, { key: 'model', text: 'Model' }, { key: 'environment', text: 'Environment' }, { key: 'note', text: 'Note' }] }),
      data: { columns: ['at', 'what', 'about', 'model', 'environment', 'note'], rows: entries },
      file: `${file}-history`,
      ways: waysOfGet(`almanac release history -w ${workspace}`, ofWorkspace(workspace, 'history')),
    }),
    audit && card({
      title: 'Who changed what',
      note: [audit.says, 'Each record has the digest of the one before; `almanac admin verify` checks them.'].filter(Boolean).join(' '),
      side: table({ caption: 'Audit', rows: audit.records, columns: [{ key: 'at', text: 'At', shows: (row) => instant(row.at) }, { key: 'principal', text: 'Who' }, { key: 'action', text: 'Action' }, { key: 'name', text: 'About' }, { key: 'source', text: 'Source' }, { key: 'after', text: 'To', shows: changed }] }),
      data: { columns: ['seq', 'at', 'principal', 'action', 'object', 'name', 'before', 'after', 'source', 'address', 'request'], rows: audit.records },
      file: `${file}-audit`,
      ways: waysOfGet(`almanac audit -w ${workspace}`, `/v1/audit?workspace=${encodeURIComponent(workspace)}`),
    }),
  ];
}
