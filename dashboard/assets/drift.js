// How far the columns of predictions are from what they were in the reference days: by effect, and from day to day.

import { ofWorkspace, rows } from './api.js';
import { card, controls, dayField, field, select, usualReference, windowControls, windowOf } from './common.js';
import { barChart, lineChart } from './chart.js';
import { h, name } from './dom.js';
import { ways } from './share.js';
import { table } from './table.js';
import { addDays, count, dayNumber } from './words.js';

const MULTIPLES = 6;
/** How many days are the window, and how many days before it the reference, unless others are chosen. */
const WINDOW = 30;
const REFERENCE = 60;
const MEASURES = { js_distance: 'Jensen-Shannon distance', psi: 'population stability index', wasserstein_scaled: 'Wasserstein distance, in deviations', ks: 'Kolmogorov-Smirnov', l_infinity: 'L-infinity' };
const NOTICEABLE = { psi: [{ y: 0.2, text: 'a shift that is usually looked into' }], js_distance: [{ y: 0.1, text: 'a shift that is usually looked into' }] };

/** The window that is chosen; else the last 30 days, or the later half of fewer than 60, so that there are days before them. */
async function windowOfDrift(context) {
  const { from, to } = await windowOf(context);
  if (context.chosen.get('from')) return { from, to };
  const days = dayNumber(to) - dayNumber(from) + 1;
  return { from: addDays(to, 1 - Math.min(WINDOW, Math.ceil(days / 2))), to };
}

/** The reference that is chosen, else the usual one; `null`, where fewer than two days have predictions. */
async function reference(context, window) {
  const [from, to] = [context.chosen.get('reference-from'), context.chosen.get('reference-to')];
  return from && to ? { from, to } : usualReference(context, window, REFERENCE);
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go } = context;
  const window = await windowOfDrift(context);
  const past = await reference(context, window);
  const ends = past ?? { from: chosen.get('reference-from'), to: chosen.get('reference-to') };
  const set = (key, other, end) => (value) => go({ [key]: value || null, [other]: end });
  const measure = Object.hasOwn(MEASURES, chosen.get('measure')) ? chosen.get('measure') : 'js_distance';
  const asOf = chosen.get('as-of');
  const bar = controls(
    field('Measure', select(measure, Object.entries(MEASURES), (value) => go({ measure: value }))),
    windowControls(context, window),
    field('Reference from', dayField(ends.from, set('reference-from', 'reference-to', ends.to))),
    field('Reference to', dayField(ends.to, set('reference-to', 'reference-from', ends.from))));
  if (!past) return [bar, card({ title: 'There is nothing to compare with', side: h('p', { class: 'empty' }, `None of the ${REFERENCE} days before ${window.from} has predictions, and fewer than two days of the window have. Choose other days above: drift is how far the window is from the reference.`) })];
  const overlaps = past.from <= window.to && past.to >= window.from;
  const parameters = { from: window.from, to: window.to, reference: `${past.from}..${past.to}`, ...(asOf && { 'as-of': asOf }) };
  const whole = { ...parameters, period: 'all' };
  const path = ofWorkspace(workspace, 'drift');
  const all = (await rows(path, whole, { signal })).filter((row) => row.release === null);
  const ranked = all.filter((row) => typeof row[measure] === 'number').sort((a, b) => b[measure] - a[measure]);
  const days = ranked.length ? (await rows(path, { ...parameters, columns: `day,release,column,${measure}` }, { signal })).filter((row) => row.release === null) : [];
  const top = Math.max(...days.map((row) => row[measure] ?? 0), 0);
  const multiple = (column) => {
    const points = days.filter((row) => row.column === column).map((row) => ({ x: dayNumber(row.day), y: row[measure] }));
    return h('figure', { class: 'multiple' }, h('figcaption', null, name(column)), lineChart({ title: `${measure} of ${column} by day`, days: true, series: [{ name: column, points }, { name: '', points: [{ x: points[0]?.x ?? 0, y: null, low: null, high: top }] }].slice(0, 1), zero: true, height: 150, lines: NOTICEABLE[measure]?.filter((one) => one.y <= top * 1.2) }));
  };
  const file = `${workspace.replace('/', '-')}-drift`;
  return [
    bar,
    card({
      title: 'What changed most',
      note: `${window.from} to ${window.to} against ${past.from} to ${past.to}${overlaps ? ', which share days' : ''}${asOf ? `, as known on ${asOf}` : ''}`,
      chart: ranked.length ? barChart({ title: `Columns by ${MEASURES[measure]}`, bars: ranked.slice(0, 15).map((row) => ({ name: row.column, value: row[measure] })), lines: NOTICEABLE[measure]?.filter((one) => one.y <= ranked[0][measure] * 1.2) }) : null,
      side: table({ caption: 'Columns by effect', rows: ranked, empty: 'No column has enough predictions in both windows for this measure.', columns: [
        { key: 'column', text: 'Column' },
        { key: measure, text: measure, number: true },
        { key: 'p_adjusted', text: 'p, adjusted', number: true },
        { key: 'n', text: 'Values', number: true, shows: (row) => count(row.n) },
      ] }),
      ways: ways('drift', workspace, whole),
      data: { columns: ['column', 'sort', 'n', 'n_reference', ...Object.keys(MEASURES), 'p_value', 'p_adjusted', 'null_rate', 'null_rate_reference', 'unseen'], rows: all },
      file,
    }),
    ranked.length > 0 && card({
      title: 'Day by day',
      note: `The ${Math.min(MULTIPLES, ranked.length)} columns that changed most, each day against the reference`,
      side: h('div', { class: 'multiples' }, ranked.slice(0, MULTIPLES).map((row) => multiple(row.column))),
      data: { columns: ['day', 'column', measure], rows: days },
      file: `${file}-days`,
      ways: ways('drift', workspace, parameters),
    }),
    ranked.length > 0 && card({
      title: 'Table',
      side: table({ caption: 'Drift by day', rows: days.filter((row) => ranked.slice(0, MULTIPLES).some((one) => one.column === row.column)).reverse(), columns: [
        { key: 'day', text: 'Day', shows: (row) => row.day },
        { key: 'column', text: 'Column' },
        { key: measure, text: measure, number: true },
      ] }),
    }),
  ];
}
