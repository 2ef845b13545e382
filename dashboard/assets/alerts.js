// The alert rules of a workspace, where each stands, when they crossed, and when one would have fired with another threshold.

import { Problem, change, json, ofWorkspace, post } from './api.js';
import { lineChart } from './chart.js';
import { badge, card, dayField, field, select, stat, windowOf } from './common.js';
import { h, name, prose, table } from './dom.js';
import { waysOfGet, waysOfTrial } from './share.js';
import { count, dayNumber, decimal, instant, many } from './words.js';

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
          { key: 'at', text: 'Evaluated at', shows: (row) => instant(row.at) },
        ],
      }),
      data: { columns: ['day', 'what', 'rule', 'value', 'measured', 'text', 'at'], rows: transitions },
      file: `${workspace.replace('/', '-')}-transitions`,
      ways: waysOfGet(`almanac alert events -w ${workspace}`, ofWorkspace(workspace, 'transitions')),
    }),
  ];
}

/** What the threshold of a rule may be called. */
const BOUNDS = ['above', 'below', 'moved'];

/** What a rule is answered with that is no field of it. */
const ANSWERED = ['created_at', 'state', 'evaluated_day'];

const boundOf = (rule) => BOUNDS.find((one) => typeof rule?.[one] === 'number');

/** What is asked: the rule as it is applied, or another one like it. */
function asked(rule, chosen, days) {
  const changes = Object.fromEntries([[boundOf(rule), chosen.get('bound')], ['for', chosen.get('for')]].filter(([key, value]) => key && value).map(([key, value]) => [key, Number(value)]));
  if (!Object.keys(changes).length) return { name: rule.name, ...days };
  const own = Object.entries(rule).filter(([key]) => !ANSWERED.includes(key));
  // The bound at which it is resolved is that of its own threshold.
  const kept = own.filter(([key]) => key !== 'clear' || changes[boundOf(rule)] === undefined);
  return { name: rule.name, rules: [{ ...Object.fromEntries(kept), ...changes }], ...days };
}

function form({ rules, rule, chosen, go }, days) {
  const number = (key, usual, attributes) => h('input', { type: 'number', value: chosen.get(key) ?? usual, onchange: (event) => go({ [key]: event.target.value || null }), ...attributes });
  const bound = boundOf(rule);
  const names = [['', 'choose a rule'], ...rules.map((one) => one.name).sort()];
  return h('form', { class: 'controls', 'aria-label': 'What is tried', onsubmit: (event) => event.preventDefault() },
    field('Rule', select(chosen.get('rule') ?? '', names, (value) => go({ rule: value || null, bound: null, for: null }))),
    bound && field(bound === 'moved' ? 'Moved by deviations' : bound[0].toUpperCase() + bound.slice(1), number('bound', rule[bound], { step: 'any' })),
    rule && field('Days in a row', number('for', rule.for ?? 1, { min: 1, step: 1 })),
    rule && field('From', dayField(days.from, (value) => go({ ...days, from: value || null }))),
    rule && field('To', dayField(days.to, (value) => go({ ...days, to: value || null }))));
}

/** The card; `states` says which badge a state has. */
async function trial(context) {
  const { workspace, chosen, signal, rules, states } = context;
  const rule = rules.find((one) => one.name === chosen.get('rule'));
  const days = rule ? await windowOf(context) : {};
  const controls = form({ ...context, rule }, days);
  const title = 'Try a rule';
  if (!rule) return card({ title, note: 'When it would have fired, by what is known now. Nothing is written.', side: controls });
  const body = asked(rule, chosen, days);
  const path = ofWorkspace(workspace, 'alert-rules/test');
  let answer;
  try {
    answer = await post(path, body, { signal });
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 401) throw error;
    return card({ title, side: [controls, h('p', { class: 'notice', role: 'alert' }, prose(error.message))] });
  }
  const { days: tried, fired } = answer;
  const bound = boundOf(rule);
  const held = bound === 'moved' ? 'measured' : 'value';
  const limit = bound && (body.rules?.[0][bound] ?? rule[bound]);
  // What is moved may go up or down.
  const limits = bound === 'moved' ? [limit, -limit] : bound ? [limit] : [];
  const known = tried.some((day) => typeof day[held] === 'number');
  const chart = known && lineChart({
    title: `What ${chosen.get('rule')} watches, by day`,
    y: held === 'value' ? 'number of the day' : 'deviations',
    days: true,
    marks: tried.filter((day) => day.transition).map((day) => ({ x: dayNumber(day.day), text: day.transition, title: `${day.transition} on ${day.day}` })),
    lines: limits.map((y) => ({ y, text: `${bound} ${decimal(y)}` })),
    series: [{ name: held === 'value' ? 'the number of the day' : 'deviations', points: tried.map((day) => ({ x: dayNumber(day.day), y: day[held] })) }],
    legend: true,
    height: 280,
  });
  return card({
    title,
    note: `It would have fired on ${fired} of ${many(tried.length, 'day')} from ${answer.from} to ${answer.to}, by what is known now.`,
    chart: chart || null,
    side: [controls, table({ caption: 'Days on which it was tried', rows: [...tried].reverse(), empty: 'No day of these is due yet.', columns: [
      { key: 'day', text: 'Day', shows: (row) => row.day },
      { key: 'value', text: 'Number', number: true, shows: (row) => decimal(row.value) },
      ...(bound === 'moved' ? [{ key: 'measured', text: 'Deviations', number: true, shows: (row) => decimal(row.measured) }] : []),
      { key: 'n', text: 'Of', number: true, shows: (row) => count(row.n) },
      { key: 'state', text: 'State', shows: (row) => badge(...(states[row.state] ?? ['none', row.state])) },
      { key: 'transition', text: 'Crosses', shows: (row) => row.transition ?? '' },
    ] })],
    data: { columns: ['day', 'value', 'n', 'measured', 'state', 'transition'], rows: tried },
    file: `${workspace.replace('/', '-')}-trial`,
    ways: waysOfTrial(workspace, path, body),
  });
}
