// The alert rules of a workspace, where each stands, and when they crossed.

import { json, ofWorkspace } from './api.js';
import { badge, card, stat } from './common.js';
import { h, name } from './dom.js';
import { waysOfGet } from './share.js';
import { change } from './state.js';
import { table } from './table.js';
import { trial } from './trial.js';
import { count, decimal, instant } from './words.js';

const STATES = { firing: ['bad', 'fires'], pending: ['warn', 'pending'], resolved: ['good', 'resolved'], ok: ['good', 'ok'], no_data: ['none', 'no data'] };

/** What a rule watches, in words. */
export function watches(rule) {
  const tagged = rule.tag ? ` with ${rule.tag}` : '';
  const what = rule.missing ? `no ${rule.missing}` : rule.lag ? `lag of ${rule.lag}` : rule.count ? `count of ${rule.count}${tagged}` : rule.column ? `${rule.statistic} of ${rule.column}` : rule.drift ? `${rule.statistic ?? 'js_distance'} of ${rule.drift} against ${rule.reference}` : `${rule.metric ?? 'a number'}${tagged}`;
  const bound = rule.above !== undefined && rule.above !== null ? `above ${rule.above}` : rule.below !== undefined && rule.below !== null ? `below ${rule.below}` : rule.moved ? `moved by ${rule.moved} deviations` : rule.by ? `by ${rule.by}` : '';
  const whose = rule.release ? `of ${rule.release}` : rule.model ? `of what is live of ${rule.model} in ${rule.environment}` : '';
  return [what, whose, bound, rule.for > 1 && `on ${rule.for} days in a row`].filter(Boolean).join(' ');
}

/** How often it is asked for again where what moves is not heard, in milliseconds. */
const EVERY = 30_000;

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, moves } = context;
  // A trial reads every day again, so it is not asked for again and again.
  if (!chosen.get('rule')) moves(['alerts', 'catalog'], EVERY);
  const [{ rules, webhooks }, { transitions }] = await Promise.all([
    json(ofWorkspace(workspace, 'alert-rules'), {}, { signal }),
    json(ofWorkspace(workspace, 'transitions'), { limit: 100 }, { signal }),
  ]);
  const firing = rules.filter((rule) => rule.state === 'firing');
  const sorted = [...rules].sort((a, b) => (b.state === 'firing') - (a.state === 'firing') || (a.name < b.name ? -1 : 1));
  return [
    h('dl', { class: 'stats' }, stat('Rules', count(rules.length)), stat('That fire', count(firing.length)), stat('Webhooks', count(webhooks.length))),
    card({
      title: 'Rules',
      side: table({
        caption: 'Alert rules',
        rows: sorted,
        empty: 'There are no alert rules. `almanac alert apply rules.toml` makes some.',
        columns: [
          { key: 'state', text: 'State', shows: (row) => badge(...(STATES[row.state] ?? ['none', row.state ?? 'not evaluated'])) },
          { key: 'name', text: 'Rule', shows: (row) => h('a', { href: change(context, { rule: row.name, bound: null, for: null }) }, name(row.name)) },
          { key: 'watches', text: 'Watches', shows: (row) => name(watches(row)) },
          { key: 'evaluated_day', text: 'Evaluated up to', shows: (row) => row.evaluated_day ?? 'no day yet' },
        ],
      }),
      data: { columns: ['name', 'state', 'evaluated_day'], rows: rules },
      file: `${workspace.replace('/', '-')}-rules`,
      ways: waysOfGet(`almanac alert list -w ${workspace}`, ofWorkspace(workspace, 'alert-rules')),
    }),
    rules.length > 0 && (await trial({ ...context, rules, states: STATES })),
    card({
      title: 'When they crossed',
      note: 'The latest days first; each is stored with the read version that it was evaluated from.',
      side: table({
        caption: 'Transitions',
        rows: transitions,
        empty: 'No rule has begun to fire or was resolved yet.',
        columns: [
          { key: 'day', text: 'Day', shows: (row) => row.day },
          { key: 'what', text: 'What', shows: (row) => badge(row.what === 'fires' ? 'bad' : 'good', row.what) },
          { key: 'rule', text: 'Rule' },
          { key: 'value', text: 'Value', number: true, shows: (row) => decimal(row.value) },
          { key: 'text', text: 'Says' },
          { key: 'at', text: 'Judged at', shows: (row) => instant(row.at) },
        ],
      }),
      data: { columns: ['day', 'what', 'rule', 'value', 'measured', 'text', 'at'], rows: transitions },
      file: `${workspace.replace('/', '-')}-transitions`,
      ways: waysOfGet(`almanac alert events -w ${workspace}`, ofWorkspace(workspace, 'transitions')),
    }),
  ];
}
