// A SELECT over the tables of a workspace, with its answer as a table and, where it has numbers by day, as a chart.

import { Problem, sql } from './api.js';
import { lineChart } from './chart.js';
import { card, windowOf } from './common.js';
import { fresh, h, prose, table } from './dom.js';
import { waysOfSql } from './share.js';
import { count, dayNumber, many } from './words.js';

const MOST_LINES = 8;

/** The most points of a chart: a browser takes seconds to draw and to read more of them. */
const MOST_POINTS = 5_000;

/** The lines of the numbers of an answer over its days, one a column, or one a name where a column has names; `null`, where it has no days. */
export function linesOf(found, columns) {
  if (!found.some((row) => /^\d{4}-\d\d-\d\d$/.test(row.day))) return null;
  const numbers = columns.filter((column) => found.some((row) => typeof row[column] === 'number'));
  const names = columns.filter((column) => column !== 'day' && !numbers.includes(column));
  const lines = new Map();
  for (const row of found.filter((one) => one.day)) {
    for (const column of names.length ? numbers.slice(0, 1) : numbers) {
      const key = [names.map((one) => row[one]).join(' '), names.length ? '' : column].join('');
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push({ x: dayNumber(row.day), y: row[column] });
    }
  }
  if (!lines.size) return null;
  return [...lines].slice(0, MOST_LINES).map(([name, points]) => ({ name, points: points.sort((a, b) => a.x - b.x) }));
}

/** The chart of an answer, or why it has none. */
function drawn(found, columns) {
  const series = linesOf(found, columns);
  if (!series) return {};
  const points = series.reduce((sum, one) => sum + one.points.length, 0);
  if (points > MOST_POINTS) return { note: `No chart: ${count(points)} points are more than ${count(MOST_POINTS)}.` };
  return { chart: lineChart({ title: 'The answer by day', days: true, series, legend: true, height: 280 }) };
}

async function answered(workspace, statement, asOf, signal) {
  let found;
  try {
    found = await sql(workspace, statement, asOf, { signal });
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 401) throw error;
    return h('div', { class: 'card' }, h('p', { class: 'notice', role: 'alert' }, prose(error.message)));
  }
  const columns = [...new Set(found.flatMap(Object.keys))];
  const number = (column) => found.some((row) => typeof row[column] === 'number');
  return card({
    title: many(found.length, 'row'),
    ...drawn(found, columns),
    wide: true,
    side: table({ caption: 'The answer', rows: found, empty: 'The answer has no rows.', columns: columns.map((key) => ({ key, text: key, number: number(key) })) }),
    data: { columns, rows: found },
    file: `${workspace.replace('/', '-')}-answer`,
    ways: waysOfSql(workspace, statement, asOf),
  });
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go } = context;
  const asOf = chosen.get('as-of');
  const given = chosen.get('sql');
  const window = given ? null : await windowOf(context);
  const usual = window && `select day, release, predictions, labelled, accuracy\nfrom evaluations\nwhere day between '${window.from}' and '${window.to}'\norder by day, release`;
  const id = fresh('sql');
  const area = h('textarea', { id, rows: 7, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off' });
  area.value = given ?? usual;
  const ask = () => go({ sql: area.value });
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) ask();
  });
  return [
    h('form', { class: 'card', onsubmit: (event) => { event.preventDefault(); ask(); } },
      h('label', { for: id, class: 'quiet' }, 'One SELECT on predictions, outcomes, metrics, releases, joined, rollups, evaluations, classes, confusion, drift or maturity, which says the days that it reads'),
      area,
      h('div', { class: 'asks' }, h('button', { type: 'submit', class: 'first' }, 'Run'), h('span', { class: 'quiet' }, asOf ? `as known on ${asOf}` : 'or Ctrl and Enter'))),
    given && (await answered(workspace, given, asOf, signal)),
  ];
}
