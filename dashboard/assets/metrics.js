// The metrics of a workspace over time: its releases on one axis, with what was promoted when and which days are immature; and what a metric was expected to be.

import { Problem, link, ofWorkspace, rows } from './api.js';
import { lineChart } from './chart.js';
import { axisOf, card, check, controls, dayField, field, history, metricStat, promotions, select, usualReference, windowControls, windowOf } from './common.js';
import { h, table } from './dom.js';
import { ways } from './share.js';
import { addDays, count, dayNumber, dayOf, many, nextMonth, periodHead } from './words.js';

const MATURE = 0.9;
/** How often new evaluations are looked for where what moves is not heard, in milliseconds. */
const EVERY = 15_000;
const NO_METRICS = new Set(['day', 'release', 'model', 'hour', 'maturity', 'definition_from', 'positive_label', 'keys', 'interval_level', 'costs', 'threshold']);
const FIRST = ['accuracy', 'mae'];

/** The metrics that have a number in any of the rows. */
const named = (all) => {
  const names = new Set();
  for (const row of all) for (const [key, value] of Object.entries(row)) if (typeof value === 'number' && !NO_METRICS.has(key)) names.add(key);
  return [...names];
};

/** From where to where a period is shaded: a day around its point; a week and a month, whose points stand at their first days, up to their ends. */
const SHADED = {
  day: (day) => [day - 0.5, day + 0.5],
  // Day 4 of the count was a Monday.
  week: (day) => [day, day + 7 - ((((day - 4) % 7) + 7) % 7)],
  month: (day) => [day, dayNumber(nextMonth(dayOf(day)))],
};

/** The shades over days of which less than nine tenths have labels. */
function immature(found, group) {
  const most = new Map();
  for (const row of found) if (typeof row.maturity === 'number') most.set(row.day, Math.max(most.get(row.day) ?? 0, row.maturity));
  const days = [...most].filter(([, share]) => share < MATURE).map(([day]) => dayNumber(day)).sort((a, b) => a - b);
  const shades = [];
  for (const [from, to] of days.map(SHADED[group] ?? SHADED.day)) {
    const last = shades.at(-1);
    if (last && from <= last.to) last.to = to;
    else shades.push({ from, to, text: 'Less than nine tenths of the predictions have labels yet' });
  }
  return shades;
}

function lines(found, metric) {
  const series = new Map();
  for (const row of found) {
    const all = series.get(row.release) ?? [];
    all.push({ x: dayNumber(row.day), y: row[metric], low: row[`${metric}_low`], high: row[`${metric}_high`], hollow: row.maturity < MATURE, labelled: row.labelled, note: row.labelled === undefined ? null : `of ${count(row.labelled)}` });
    series.set(row.release, all);
  }
  return [...series].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, points]) => ({ name, points: points.sort((a, b) => a.x - b.x) }));
}

async function known(context, window, asOf) {
  const path = ofWorkspace(context.workspace, 'evaluations');
  for (const from of [window.to, addDays(window.to, -6)]) {
    const found = await rows(path, { from: from < window.from ? window.from : from, to: window.to, 'as-of': asOf }, { signal: context.signal });
    const names = named(found);
    if (names.includes('accuracy') || names.includes('mae')) return names;
  }
  return named(await rows(path, { from: window.from, to: window.to, period: 'all', 'as-of': asOf }, { signal: context.signal }));
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go, moves } = context;
  const window = await windowOf(context);
  const asOf = chosen.get('as-of');
  const names = await known(context, window, asOf);
  const metric = chosen.get('metric') ?? FIRST.find((one) => names.includes(one)) ?? names[0] ?? 'accuracy';
  const group = chosen.get('period') ?? 'day';
  const banded = chosen.get('interval') === 'true';
  const band = banded ? `,${metric}_low,${metric}_high` : '';
  const plain = ['predictions', 'labelled'].includes(metric) ? '' : `,${metric}${band}`;
  const parameters = { from: window.from, to: window.to, release: chosen.get('release'), columns: `day,release,predictions,labelled,maturity${plain}`, ...(group !== 'day' && { period: group }), ...(asOf && { 'as-of': asOf }) };
  const [found, entries] = await Promise.all([rows(ofWorkspace(workspace, 'evaluations'), parameters, { signal }), history(workspace, signal)]);
  const series = lines(found, metric);
  const marks = promotions(entries, window);
  const shades = immature(found, group);
  const chart = found.length ? lineChart({ title: `${metric} by ${group}, ${window.from} to ${window.to}`, days: true, series, marks, shades, y: metric, x: `${group === 'day' ? 'day' : `first day of the ${group}`} (UTC)`, legend: true, height: 340, xs: axisOf(window, group, marks) }) : null;
  const columns = [
    { key: 'day', text: periodHead(group), shows: (row) => (group === 'day' ? h('a', { class: 'plain', href: link('day', workspace, { day: row.day, release: row.release, 'as-of': asOf }) }, row.day) : row.day) },
    { key: 'release', text: 'Release' },
    { key: 'labelled', text: 'Labelled', number: true, shows: (row) => count(row.labelled) },
    { key: metric, text: metric, number: true },
    ...(banded ? [{ key: `${metric}_low`, text: 'Low', number: true }, { key: `${metric}_high`, text: 'High', number: true }] : [{ key: 'maturity', text: 'Maturity', number: true, shows: (row) => (typeof row.maturity === 'number' ? `${(row.maturity * 100).toFixed(0)} %` : '–') }]),
  ];
  // Intervals and what is expected are computed from the events, so they are not asked for again and again.
  if (!banded && !asOf && chosen.get('expected') !== 'true') moves(['evaluations', 'catalog'], EVERY);
  const expects = chosen.get('expected') === 'true' && canBeExpected(metric);
  const latest = series.map((one) => ({ name: one.name, last: one.points.findLast((point) => typeof point.y === 'number') })).filter((one) => one.last);
  const note = [asOf && `as known on ${asOf}`, shades.length && 'shaded: less than nine tenths have labels yet', marks.length && many(marks.length, 'promotion')].filter(Boolean).join('; ');
  return [
    controls(
      field('Metric', select(metric, names.includes(metric) ? names : [metric, ...names], (value) => go({ metric: value }))),
      field('By', select(group, ['day', 'week', 'month'], (value) => go({ period: value === 'day' ? null : value }))),
      windowControls(context, window),
      check('95% intervals (read from the events)', banded, (on) => go({ interval: on ? 'true' : null })),
      canBeExpected(metric) && check('Expected against realised (read from the events)', expects, (on) => go({ expected: on ? 'true' : null }))),
    latest.length > 0 && h('dl', { class: 'stats' }, latest.slice(0, 6).map((one) => metricStat(`${one.name}, latest`, one.last.y, one.last.labelled))),
    card({
      title: metric,
      note: note || null,
      chart,
      side: table({ caption: `${metric} by ${group} and release`, columns, rows: [...found].reverse(), empty: 'No day of this window is evaluated. Choose other days, or wait for outcomes.' }),
      ways: ways('evaluations', workspace, parameters),
      data: { columns: parameters.columns.split(','), rows: found },
      file: `${workspace.replace('/', '-')}-${metric}`,
    }),
    expects && (await expected(context, window, { metric, group, asOf })),
  ];
}

/** The metrics that scores alone say something of. */
const EXPECTED = ['accuracy', 'precision', 'recall', 'f1', 'auc', 'brier', 'log_loss'];
/** How many days before the window are the reference, unless others are chosen. */
const REFERENCE = 60;

/** Whether a metric can be expected. */
const canBeExpected = (metric) => EXPECTED.includes(metric);

/** The lines of each release: what was expected, with its band, and what it was. */
function expectedLines(found, metric) {
  const names = [...new Set(found.map((row) => row.release))].sort();
  const points = (release, key, band) => found.filter((row) => row.release === release)
    .map((row) => ({ x: dayNumber(row.day), y: row[key], ...(band && { low: row[`${key}_low`], high: row[`${key}_high`] }) }))
    .sort((a, b) => a.x - b.x);
  return names.flatMap((release, at) => [
    { name: `${release}, expected`, colour: at, dashed: true, points: points(release, `${metric}_expected`, true) },
    { name: `${release}, realised`, colour: at, points: points(release, metric, false) },
  ]);
}

/** The card. It is read from the events, so it is shown when it is asked for. */
async function expected(context, window, { metric, group, asOf }) {
  const { workspace, chosen, signal, go } = context;
  const usual = async () => {
    const { from, to } = await usualReference(context, window, REFERENCE) ?? { from: addDays(window.from, -REFERENCE), to: addDays(window.from, -1) };
    return `${from}..${to}`;
  };
  const [first, last] = (chosen.get('reference') ?? await usual()).split('..');
  const parameters = { from: window.from, to: window.to, reference: `${first}..${last}`, release: chosen.get('release'), columns: `day,release,n,labelled,${metric}_expected,${metric}_expected_low,${metric}_expected_high,${metric},${metric}_gap`, ...(group !== 'day' && { period: group }), ...(asOf && { 'as-of': asOf }) };
  let [found, says] = [[], 'No release of these days predicted in the reference days, with outcomes. Choose others.'];
  try {
    found = await rows(ofWorkspace(workspace, 'estimates'), parameters, { signal });
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error;
    says = error.message;
  }
  const set = (days) => days.every(Boolean) && go({ reference: days.join('..') });
  const choice = h('form', { class: 'controls', 'aria-label': 'Reference days', onsubmit: (event) => event.preventDefault() },
    field('Reference from', dayField(first, (value) => set([value, last]))), field('Reference to', dayField(last, (value) => set([first, value]))));
  return card({
    title: `${metric}, expected against realised`,
    note: 'Expected from scores alone, as if they meant what they meant in the reference days; the gap is of those predictions that have their truth.',
    chart: found.length ? lineChart({ title: `${metric} expected and realised, ${window.from} to ${window.to}`, days: true, series: expectedLines(found, metric), y: metric, legend: true, height: 300, xs: [dayNumber(window.from), dayNumber(window.to)] }) : null,
    side: [choice, table({ caption: `${metric} expected and realised`, rows: [...found].reverse(), empty: says, columns: [
      { key: 'day', text: periodHead(group) },
      { key: 'release', text: 'Release' },
      { key: 'labelled', text: 'Labelled', number: true, shows: (row) => count(row.labelled) },
      { key: `${metric}_expected`, text: 'Expected', number: true },
      { key: metric, text: 'Realised', number: true },
      { key: `${metric}_gap`, text: 'Gap', number: true },
    ] })],
    ways: ways('estimates', workspace, parameters),
    data: { columns: parameters.columns.split(','), rows: found },
    file: `${workspace.replace('/', '-')}-${metric}-expected`,
  });
}
