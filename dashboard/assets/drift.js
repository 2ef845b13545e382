// How far the columns of predictions are from what they were in the reference days: by effect, and from day to day.

import { ofWorkspace, rows } from './api.js';
import { card, controls, dayField, field, select, volume, windowControls, windowOf } from './common.js';
import { barChart, lineChart } from './chart.js';
import { h, name } from './dom.js';
import { ways } from './share.js';
import { table } from './table.js';
import { addDays, count, dayNumber } from './words.js';

const MULTIPLES = 6;
const MEASURES = { js_distance: 'Jensen-Shannon distance', psi: 'population stability index', wasserstein_scaled: 'Wasserstein distance, in deviations', ks: 'Kolmogorov-Smirnov', l_infinity: 'L-infinity' };
const NOTICEABLE = { psi: [{ y: 0.2, text: 'a shift that is usually looked into' }], js_distance: [{ y: 0.1, text: 'a shift that is usually looked into' }] };

/** The reference that is chosen, else as many days before the window as it has, up to 60. */
async function reference({ chosen, workspace, signal }, window) {
  const [from, to] = [chosen.get('reference-from'), chosen.get('reference-to')];
  if (from && to) return { from, to };
  const first = (await volume(workspace, signal))[0]?.day ?? addDays(window.from, -60);
  const end = addDays(window.from, -1);
  if (end < first) return { from: window.from, to: window.to };
  const begin = addDays(end, -59);
  return { from: begin < first ? first : begin, to: end };
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go } = context;
  const given = await windowOf(context);
  const window = chosen.get('from') ? given : { from: addDays(given.to, -29) > given.from ? addDays(given.to, -29) : given.from, to: given.to };
  const past = await reference(context, window);
  const measure = chosen.get('measure') in MEASURES ? chosen.get('measure') : 'js_distance';
  const asOf = chosen.get('as-of');
  const parameters = { from: window.from, to: window.to, reference: `${past.from}..${past.to}`, ...(asOf && { 'as-of': asOf }) };
  const whole = { ...parameters, 'group-by': 'all' };
  const path = ofWorkspace(workspace, 'drift');
  const all = (await rows(path, whole, { signal })).filter((row) => row.release === null);
  const ranked = all.filter((row) => typeof row[measure] === 'number').sort((a, b) => b[measure] - a[measure]);
  const days = ranked.length ? (await rows(path, { ...parameters, columns: `day,release,column,${measure}` }, { signal })).filter((row) => row.release === null) : [];
  const top = Math.max(...days.map((row) => row[measure] ?? 0), 0);
  const multiple = (column) => {
    const points = days.filter((row) => row.column === column).map((row) => ({ x: dayNumber(row.day), y: row[measure] }));
    return h('figure', { class: 'multiple' }, h('figcaption', null, name(column)), lineChart({ title: `${measure} of ${column} by day`, days: true, series: [{ name: column, points }, { name: '', points: [{ x: points[0]?.x ?? 0, y: null, low: null, high: top }] }].slice(0, 1), zero: true, height: 150, lines: NOTICEABLE[measure]?.filter((one) => one.y <= top * 1.2) }));
  };
  const set = (key, other) => (value) => go({ [key]: value, [other]: other === 'reference-to' ? past.to : past.from });
  const file = `${workspace.replace('/', '-')}-drift`;
  return [
    controls(
      field('Measure', select(measure, Object.entries(MEASURES), (value) => go({ measure: value }))),
      windowControls(context, window),
      field('Reference from', dayField(past.from, set('reference-from', 'reference-to'))),
      field('to', dayField(past.to, set('reference-to', 'reference-from')))),
    card({
      title: 'What changed most',
      note: `${window.from} to ${window.to} against ${past.from} to ${past.to}${asOf ? `, as known on ${asOf}` : ''}`,
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
      title: 'The same as a table',
      side: table({ caption: 'Drift by day', rows: days.filter((row) => ranked.slice(0, MULTIPLES).some((one) => one.column === row.column)).reverse(), columns: [
        { key: 'day', text: 'Day', shows: (row) => row.day },
        { key: 'column', text: 'Column' },
        { key: measure, text: measure, number: true },
      ] }),
    }),
  ];
}
