// What a metric is expected to be before there is truth, by what scores meant in the reference days, beside what it turned out to be.

import { Problem, ofWorkspace, rows } from './api.js';
import { lineChart } from './chart.js';
import { card, dayField, field, usualReference } from './common.js';
import { h } from './dom.js';
import { ways } from './share.js';
import { table } from './table.js';
import { addDays, count, dayNumber, periodHead } from './words.js';

/** The metrics that scores alone say something of. */
const EXPECTED = ['accuracy', 'precision', 'recall', 'f1', 'auc', 'brier', 'log_loss'];
/** How many days before the window are the reference, unless others are chosen. */
const REFERENCE = 60;

/** Whether a metric can be expected. */
export const canBeExpected = (metric) => EXPECTED.includes(metric);

/** The lines of each release: what was expected, with its band, and what it was. */
function lines(found, metric) {
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
export async function expected(context, window, { metric, group, asOf }) {
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
    chart: found.length ? lineChart({ title: `${metric} expected and realised, ${window.from} to ${window.to}`, days: true, series: lines(found, metric), legend: true, height: 300, xs: [dayNumber(window.from), dayNumber(window.to)] }) : null,
    side: [choice, table({ caption: `${metric} expected and realised`, rows: [...found].reverse(), empty: says, columns: [
      { key: 'day', text: periodHead(group) },
      { key: 'release', text: 'Release' },
      { key: 'labelled', text: 'Judged', number: true, shows: (row) => count(row.labelled) },
      { key: `${metric}_expected`, text: 'Expected', number: true },
      { key: metric, text: 'Realised', number: true },
      { key: `${metric}_gap`, text: 'Gap', number: true },
    ] })],
    ways: ways('estimates', workspace, parameters),
    data: { columns: parameters.columns.split(','), rows: found },
    file: `${workspace.replace('/', '-')}-${metric}-expected`,
  });
}
