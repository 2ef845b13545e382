// An alert rule tried on days that are over, with another threshold if somebody wants to know: when it would have fired.

import { Problem, ofWorkspace, post } from './api.js';
import { badge, card, dayField, field, select, windowOf } from './common.js';
import { lineChart } from './chart.js';
import { h } from './dom.js';
import { waysOfTrial } from './share.js';
import { table } from './table.js';
import { count, dayNumber, decimal, many } from './words.js';

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
export async function trial(context) {
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
    answer = await (await post(path, body, { signal })).json();
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 401) throw error;
    return card({ title, side: [controls, h('p', { class: 'notice', role: 'alert' }, error.message)] });
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
