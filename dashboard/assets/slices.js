// Two releases head to head by the values of a tag: where one is better than the other, and how sure that is of each value.

import { ofWorkspace, rows } from './api.js';
import { badge, card, field, select } from './common.js';
import { lineChart } from './chart.js';
import { h, name } from './dom.js';
import { ways } from './share.js';
import { table } from './table.js';
import { addDays, count, dayNumber, many } from './words.js';

/** Of how many values, of those with the most predictions, the advantage is drawn from day to day. */
const MULTIPLES = 6;

/** In how many days at the end of the window tags are looked for. */
const LATEST = 7;

/** The tags that predictions have at the end of a window. */
async function tags({ workspace, signal }, { from, to }) {
  const first = addDays(to, 1 - LATEST);
  const days = { from: first < from ? from : first, to };
  const found = await rows(ofWorkspace(workspace, 'drift'), { ...days, reference: `${days.from}..${days.to}`, period: 'all', columns: 'release,column' }, { signal });
  return [...new Set(found.map((row) => row.column))].filter((column) => column.startsWith('tag.')).sort();
}

const shown = (value) => (value === null || value === undefined ? 'without it' : value);

/** The card; `parameters` are those of the comparison. None, when predictions have no tags. */
export async function slices(context, window, parameters) {
  const { workspace, chosen, signal, go } = context;
  const all = await tags(context, window);
  const by = chosen.get('group-by');
  if (!all.length && !by) return null;
  const choice = h('form', { class: 'controls', 'aria-label': 'By which tag', onsubmit: (event) => event.preventDefault() },
    field('Tag', select(by ?? '', [['', 'choose a tag'], ...new Set([...all, ...(by ? [by] : [])])], (value) => go({ 'group-by': value || null }))));
  const title = 'Where it is better';
  if (!by) return card({ title, note: 'The same comparison for each value of a tag.', side: choice });
  const path = ofWorkspace(workspace, 'head-to-head');
  const whole = { ...parameters, 'group-by': by, period: 'all' };
  const columns = `day,release,${by},advantage_so_far,low_so_far,high_so_far`;
  const [found, days] = await Promise.all([
    rows(path, whole, { signal }),
    rows(path, { ...parameters, 'group-by': by, columns }, { signal }),
  ]);
  const ranked = [...found].sort((a, b) => b.n - a.n);
  const { release, against } = parameters;
  const multiple = (row) => {
    const points = days.filter((one) => one[by] === row[by]).map((one) => ({ x: dayNumber(one.day), y: one.advantage_so_far, low: one.low_so_far, high: one.high_so_far }));
    return h('figure', { class: 'multiple' }, h('figcaption', null, name(shown(row[by]))), lineChart({ title: `Advantage of ${release} over ${against} so far, ${by} ${shown(row[by])}`, days: true, series: [{ name: shown(row[by]), points }], lines: [{ y: 0, text: '' }], height: 150 }));
  };
  const verdict = (row) => (row.winner ? badge('good', `${row.winner}, ${row.decided_at}`) : badge('none', 'open'));
  return card({
    title,
    note: `${many(ranked.length, 'value')} of ${by}, most predictions first. The bounds hold for each value by itself: of twenty values, one may be decided by chance.`,
    side: [choice,
      table({ caption: `Advantage by ${by}`, rows: ranked, empty: `No prediction of both releases has ${by}.`, columns: [
        { key: by, text: by, shows: (row) => name(shown(row[by])) },
        { key: 'n', text: 'Both', number: true, shows: (row) => count(row.n) },
        { key: 'wins', text: `${release} wins`, number: true, shows: (row) => count(row.wins) },
        { key: 'losses', text: `${against} wins`, number: true, shows: (row) => count(row.losses) },
        { key: 'advantage_so_far', text: 'Advantage', number: true },
        { key: 'low_so_far', text: 'Low', number: true },
        { key: 'high_so_far', text: 'High', number: true },
        { key: 'decided_at', text: 'Better, since', shows: verdict },
      ] }),
      h('div', { class: 'multiples' }, ranked.slice(0, MULTIPLES).map(multiple))],
    data: { columns: [by, 'n', 'wins', 'losses', 'ties', 'advantage_so_far', 'low_so_far', 'high_so_far', 'decided_at', 'winner'], rows: ranked },
    file: `${workspace.replace('/', '-')}-${release}-against-${against}-by-${by}`,
    ways: ways('head-to-head', workspace, whole),
  });
}
