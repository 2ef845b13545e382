// Where a model is worst, by the values of what its model declares; and how far the columns of predictions are from what they were in the reference days, by effect and from day to day.

import { Problem, ofWorkspace, rows } from './api.js';
import { barChart, lineChart } from './chart.js';
import { FEW, card, controls, dayField, field, live, models, select, tagsOf, usualReference, windowControls, windowOf } from './common.js';
import { h, name, prose, table } from './dom.js';
import { quoted, snippet, ways } from './share.js';
import { addDays, count, dayNumber, decimal } from './words.js';

const MULTIPLES = 6;
/** The most slices of a table, and those that are drawn. */
const MOST_SLICES = 50;
const MOST_BARS = 12;
/** The metrics that slices are usually ranked by. */
const SLICED = ['accuracy', 'auc', 'brier', 'log_loss', 'precision', 'recall', 'f1', 'mae', 'rmse'];
/** How many days are the window, and how many days before it the reference, unless others are chosen. */
const WINDOW = 30;
const REFERENCE = 60;
export const MEASURES = { js_distance: 'Jensen-Shannon distance', psi: 'population stability index', wasserstein_scaled: 'Wasserstein distance, in deviations', ks: 'Kolmogorov-Smirnov', l_infinity: 'L-infinity' };
export const NOTICEABLE = { psi: [{ y: 0.2, text: 'a shift that is usually looked into' }], js_distance: [{ y: 0.1, text: 'a shift that is usually looked into' }] };

/** The slices of a window from the weakest on; where they cannot be had, why. */
export async function weakest({ workspace, signal }, parameters) {
  try {
    return { found: await rows(ofWorkspace(workspace, 'slices'), parameters, { signal }) };
  } catch (error) {
    if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 401) return { found: [], says: error.message };
    throw error;
  }
}

/** What to do where no slice is known: wait for an evaluation, or declare a tag that predictions have. */
export async function declare(context, known, window) {
  const declared = [...new Set(known.flatMap((model) => model.dimensions ?? []))];
  const says = (text) => h('p', { class: 'empty' }, prose(text));
  if (declared.length) return says(`No slice is evaluated from ${window.from} to ${window.to} by ${declared.join(', ')}: labels are missing, or the definition holds from a later day.`);
  const [tag] = await tagsOf(context, window);
  if (!tag) return says('Predictions have no tags to slice by. Post them with `"tags": {"country": "de"}`.');
  return [says(`No dimension is declared. Predictions have ${tag}; this declares it:`),
    snippet('Declare it', `almanac model define ${quoted(`${context.workspace}/${known[0]?.name}`)} --dimension ${quoted(tag)} --from ${window.from} --url ${location.origin}`)];
}

/** The table of slices, with what to do where there is none. */
export const sliceTable = (found, metric) => table({ caption: 'Weakest slices', rows: found.slice(0, MOST_SLICES), columns: [
  { key: 'slice', text: 'Slice' },
  { key: 'n', text: 'Labelled', number: true, shows: (one) => count(one.n) },
  { key: 'value', text: metric, number: true, shows: (one) => h('span', { class: one.n < FEW ? 'few' : null }, decimal(one.value)) },
  { key: 'gap', text: 'Gap to all', number: true },
  { key: 'p_adjusted', text: 'p, adjusted', number: true },
] });

/** The page of slices. */
export async function slicesPage(context) {
  const { workspace, chosen, signal, go } = context;
  const window = await windowOfDrift(context);
  const asOf = chosen.get('as-of');
  const of = { from: window.from, to: window.to, 'as-of': asOf };
  const [evaluated, known, alive] = await Promise.all([rows(ofWorkspace(workspace, 'evaluations'), { ...of, period: 'all' }, { signal }), models(workspace, signal), live(workspace, signal)]);
  const names = evaluated.map((row) => row.release);
  const release = [chosen.get('release'), alive[0]?.release, names.at(-1)].find((one) => names.includes(one));
  const row = evaluated.find((one) => one.release === release);
  const metrics = SLICED.filter((one) => typeof row?.[one] === 'number');
  const metric = chosen.get('metric') ?? metrics[0];
  const bar = controls(
    release && field('Release', select(release, names, (value) => go({ release: value }))),
    metric && field('Metric', select(metric, metrics.includes(metric) ? metrics : [metric, ...metrics], (value) => go({ metric: value }))),
    windowControls(context, window, String(WINDOW)));
  if (!metric) return [bar, card({ title: 'Weakest slices', side: h('p', { class: 'empty' }, `No label of ${window.from} to ${window.to} has come yet. Choose other days, or wait for outcomes.`) })];
  const parameters = { ...of, release, metric };
  const { found, says } = await weakest(context, parameters);
  const drawn = found.filter((one) => one.n >= FEW).slice(0, MOST_BARS);
  const all = drawn[0]?.whole;
  return [bar, card({
    title: 'Weakest slices',
    note: `${metric} of ${release} by the values of declared dimensions${typeof all === 'number' ? `; of all it is ${decimal(all)}` : ''}. Of fewer than ${FEW} labels a value is grey, and is not drawn.`,
    chart: drawn.length ? barChart({ title: `${metric} of the weakest slices`, bars: drawn.map((one) => ({ name: one.slice, value: one.value })), x: metric, lines: [{ y: all, text: `all: ${decimal(all)}` }] }) : null,
    side: found.length ? sliceTable(found, metric) : says ? h('p', { class: 'empty' }, prose(says)) : await declare(context, known, window),
    data: { columns: Object.keys(found[0] ?? { slice: 0 }), rows: found },
    file: `${workspace.replace('/', '-')}-slices`,
    ways: ways('slices', workspace, parameters),
  })];
}

/** The window that is chosen; else the last 30 days, or the later half of fewer than 60, so that there are days before them. */
async function windowOfDrift(context) {
  const { from, to } = await windowOf(context);
  if (context.chosen.get('from') || context.chosen.get('days')) return { from, to };
  const days = dayNumber(to) - dayNumber(from) + 1;
  return { from: addDays(to, 1 - Math.min(WINDOW, Math.ceil(days / 2))), to };
}

/** The reference that is chosen, else the usual one; `null`, where fewer than two days have predictions. */
async function reference(context, window) {
  const [from, to] = [context.chosen.get('reference-from'), context.chosen.get('reference-to')];
  return from && to ? { from, to } : usualReference(context, window, REFERENCE);
}

/** The page of drift. */
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
    windowControls(context, window, String(WINDOW)),
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
    return h('figure', { class: 'multiple' }, h('figcaption', null, name(column)), lineChart({ title: `${measure} of ${column} by day`, days: true, series: [{ name: column, points }], y: measure, zero: true, height: 150, lines: NOTICEABLE[measure]?.filter((one) => one.y <= top * 1.2) }));
  };
  const file = `${workspace.replace('/', '-')}-drift`;
  return [
    bar,
    card({
      title: 'What changed most',
      note: `${window.from} to ${window.to} against ${past.from} to ${past.to}${overlaps ? ', which share days' : ''}${asOf ? `, as known on ${asOf}` : ''}`,
      chart: ranked.length ? barChart({ title: `Columns by ${MEASURES[measure]}`, bars: ranked.slice(0, 15).map((row) => ({ name: row.column, value: row[measure] })), x: MEASURES[measure], lines: NOTICEABLE[measure]?.filter((one) => one.y <= ranked[0][measure] * 1.2) }) : null,
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
