// Two releases where both predicted the same: which is better, how sure that is, how that went from day to day, and by the values of a tag.

import { ofWorkspace, rows } from './api.js';
import { lineChart } from './chart.js';
import { badge, card, controls, field, history, live, promotions, releases, select, stat, tagsOf, windowControls, windowOf } from './common.js';
import { h, name, table } from './dom.js';
import { ways } from './share.js';
import { count, dayNumber, decimal as shown, many } from './words.js';

const METRICS = ['accuracy', 'auc', 'brier', 'log_loss', 'mae'];

/** The two to compare: those that are chosen, else the newest and the one before it; and the names to choose from, also those older ones that are chosen or live. */
export async function two({ workspace, chosen, signal }) {
  const [all, alive] = await Promise.all([releases(workspace, signal), live(workspace, signal)]);
  const newest = all.map((one) => one.name);
  const release = chosen.get('release') ?? newest.at(-1);
  const against = chosen.get('against') ?? newest.filter((one) => one !== release).at(-1);
  const older = [release, against, ...alive.map((one) => one.release)].filter((one) => one && !newest.includes(one));
  return { names: [...new Set(older), ...newest], release, against };
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go } = context;
  const [window, { names, release, against }] = await Promise.all([windowOf(context), two(context)]);
  if (!release || !against) return [card({ title: 'There is nothing to compare', side: h('p', { class: 'empty' }, 'A workspace with two releases that predicted the same keys shows here which of them is better.') })];
  const asOf = chosen.get('as-of');
  const parameters = { release, against, from: window.from, to: window.to, ...(asOf && { 'as-of': asOf }) };
  const [found, entries] = await Promise.all([rows(ofWorkspace(workspace, 'head-to-head'), parameters, { signal }), history(workspace, signal)]);
  const last = found.at(-1);
  const sum = (key) => found.reduce((total, row) => total + (row[key] ?? 0), 0);
  const metric = METRICS.find((one) => last && last[`${one}_difference`] !== null && one === chosen.get('metric')) ?? METRICS.find((one) => last && last[`${one}_difference`] !== null);
  const point = (y, low, high) => (row) => ({ x: dayNumber(row.day), y: row[y], low: row[low], high: row[high] });
  const sequence = found.length && lineChart({ title: `Advantage of ${release} over ${against} so far, with its bounds`, y: 'advantage, with bounds', days: true, marks: promotions(entries, window), lines: [{ y: 0, text: 'neither is better' }], series: [{ name: `advantage of ${release}, so far`, points: found.map(point('advantage_so_far', 'low_so_far', 'high_so_far')) }], legend: true, height: 320 });
  const both = metric && lineChart({ title: `${metric} of both`, y: metric, days: true, series: [{ name: release, points: found.map(point(metric)) }, { name: against, points: found.map(point(`${metric}_against`)) }], height: 300 });
  const file = `${workspace.replace('/', '-')}-${release}-against-${against}`;
  return [
    controls(
      field('Release', select(release, names, (value) => go({ release: value, against: value === against ? release : against }))),
      field('Against', select(against, names.filter((one) => one !== release), (value) => go({ release, against: value }))),
      windowControls(context, window)),
    found.length > 0 && h('dl', { class: 'stats' },
      stat('Verdict', last.winner ?? 'open', last.winner ? `is better, decided on ${last.decided_at}` : 'not decided'),
      stat(`${release} wins`, count(sum('wins'))), stat(`${against} wins`, count(sum('losses'))), stat('Ties', count(sum('ties')))),
    card({
      title: `Is ${release} better than ${against}?`,
      note: last ? `By ${last.measure}. The band holds however often one looks: while it leaves zero out, it is decided who is better.` : null,
      chart: sequence || null,
      side: table({ caption: 'Advantage so far', rows: [...found].reverse(), empty: `No day of this window has keys that both ${release} and ${against} predicted.`, columns: [
        { key: 'day', text: 'Day', shows: (row) => row.day },
        { key: 'advantage_so_far', text: 'So far', number: true },
        { key: 'low_so_far', text: 'Low', number: true },
        { key: 'high_so_far', text: 'High', number: true },
        { key: 'winner', text: 'Better', shows: (row) => (row.winner ? badge('good', name(row.winner)) : badge('none', 'open')) },
      ] }),
      ways: ways('head-to-head', workspace, parameters),
      data: { columns: ['day', 'n', 'wins', 'losses', 'ties', 'advantage_so_far', 'low_so_far', 'high_so_far', 'decided_at', 'winner'], rows: found },
      file,
    }),
    both && card({
      title: `${metric} of both, day by day`,
      chart: both,
      side: table({ caption: `${metric} of both`, rows: [...found].reverse(), columns: [
        { key: 'day', text: 'Day', shows: (row) => row.day },
        { key: 'n', text: 'Both', number: true, shows: (row) => count(row.n) },
        { key: metric, text: release, number: true },
        { key: `${metric}_against`, text: against, number: true },
        { key: `${metric}_p_value`, text: 'p', number: true, shows: (row) => shown(row[`${metric}_p_value`]) },
      ] }),
      data: { columns: ['day', 'n', metric, `${metric}_against`, `${metric}_difference`, `${metric}_p_value`], rows: found },
      file: `${file}-${metric}`,
    }),
    found.length > 0 && (await byTag(context, window, parameters)),
  ];
}

/** Of how many values, of those with the most predictions, the advantage is drawn from day to day. */
const MULTIPLES = 6;

const named = (value) => (value === null || value === undefined ? 'without it' : value);

/** The card; `parameters` are those of the comparison. None, when predictions have no tags. */
async function byTag(context, window, parameters) {
  const { workspace, chosen, signal, go } = context;
  const all = await tagsOf(context, window);
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
    return h('figure', { class: 'multiple' }, h('figcaption', null, name(named(row[by]))), lineChart({ title: `Advantage of ${release} over ${against} so far, ${by} ${named(row[by])}`, days: true, y: 'advantage', series: [{ name: named(row[by]), points }], lines: [{ y: 0, text: '' }], height: 150 }));
  };
  const verdict = (row) => (row.winner ? badge('good', `${row.winner}, ${row.decided_at}`) : badge('none', 'open'));
  return card({
    title,
    note: `${many(ranked.length, 'value')} of ${by}, most predictions first. The bounds hold for each value by itself: of twenty values, one may be decided by chance.`,
    side: [choice,
      table({ caption: `Advantage by ${by}`, rows: ranked, empty: `No prediction of both releases has ${by}.`, columns: [
        { key: by, text: by, shows: (row) => name(named(row[by])) },
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
