// One day: its metrics, its confusion matrix, how scores stand beside what came true, its weakest slices, and the rows behind a bar.

import { link, ofWorkspace, rows, sql } from './api.js';
import { histogram, lineChart } from './chart.js';
import { card, controls, dayField, field, lastDay, metricStat, models, select, stat, volume } from './common.js';
import { h, name, prose, table } from './dom.js';
import { declare, sliceTable, weakest } from './drift.js';
import { ways, waysOfSql } from './share.js';
import { addDays, count, instant } from './words.js';

const BINS = 20;
const ROWS = 100;
const HEADLINES = ['accuracy', 'auc', 'brier', 'log_loss', 'mae', 'rmse', 'ndcg', 'mrr'];

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

const isNumber = (text) => /^-?\d+(\.\d+)?$/.test(text);

/** The order of classes: numbers by their value, and then texts by their name. */
const byClass = (a, b) => isNumber(b) - isNumber(a) || (isNumber(a) ? a - b : 0) || (a < b ? -1 : 1);

/** The confusion matrix of one release, with the truth from top to bottom; a ground is as dark as the share of its truth that a cell has. */
export function matrix(release, all) {
  const names = [...new Set(all.flatMap((row) => [row.truth, row.predicted]))].sort(byClass);
  const at = (truth, predicted) => all.find((row) => row.truth === truth && row.predicted === predicted)?.count ?? 0;
  const cell = (truth, predicted, total) => h('td', { class: `number heat${Math.min(4, Math.ceil((at(truth, predicted) / total) * 5))}` }, count(at(truth, predicted)));
  const line = (truth) => {
    const total = names.reduce((sum, predicted) => sum + at(truth, predicted), 0) || 1;
    return h('tr', null, h('th', { scope: 'row' }, name(truth)), names.map((predicted) => cell(truth, predicted, total)));
  };
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `What ${release} took for what` },
    h('table', { class: 'matrix' },
      h('caption', null, name(release)),
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'truth \\ predicted'), names.map((one) => h('th', { scope: 'col' }, name(one))))),
      h('tbody', null, names.map(line))));
}

const statement = (day, release) => `select outcome_label, floor(score * ${BINS}) as bin, count(*) as n, sum(score) as total from joined where day = ${quoted(day)} and release = ${quoted(release)} group by outcome_label, floor(score * ${BINS}) order by bin`;

/** The bins of scores of a release, by what came true. */
function scores(found, positive) {
  const usable = found.filter((row) => typeof row.bin === 'number');
  const labels = [...new Set(usable.map((row) => row.outcome_label))].sort((a, b) => (a === null) - (b === null) || (a === positive) - (b === positive));
  const bin = (row) => Math.min(BINS - 1, row.bin);
  const series = labels.map((label, at) => ({ name: label ?? 'not known yet', colour: label === null ? 6 : label === positive ? 1 : at === 0 ? 0 : at + 1, bins: usable.filter((row) => row.outcome_label === label).map((row) => ({ from: bin(row) / BINS, to: (bin(row) + 1) / BINS, value: row.n })) }));
  const reliable = [];
  for (let at = 0; at < BINS; at += 1) {
    const here = usable.filter((row) => bin(row) === at);
    const judged = here.filter((row) => row.outcome_label !== null);
    const n = judged.reduce((sum, row) => sum + row.n, 0);
    if (!here.length) continue;
    const positives = judged.filter((row) => row.outcome_label === positive).reduce((sum, row) => sum + row.n, 0);
    reliable.push({ at, n: here.reduce((sum, row) => sum + row.n, 0), labelled: n, mean: n ? judged.reduce((sum, row) => sum + row.total, 0) / n : null, share: n ? positives / n : null });
  }
  return { series, reliable };
}

async function behind({ workspace, chosen, signal, go }, day, release, asOf) {
  const bin = Number(chosen.get('bin'));
  const text = `select key, predicted_at, score, label, outcome_label, observed_at from joined where day = ${quoted(day)} and release = ${quoted(release)} and score >= ${bin / BINS} and score < ${(bin + 1) / BINS + (bin === BINS - 1 ? 1 : 0)} limit ${ROWS}`;
  const found = await sql(workspace, text, asOf, { signal });
  const columns = ['key', 'predicted_at', 'score', 'label', 'outcome_label', 'observed_at'];
  return card({
    title: `Predictions with a score from ${bin / BINS} to ${(bin + 1) / BINS}`,
    note: found.length === ROWS ? `The first ${ROWS} of them` : null,
    side: [table({ caption: 'Predictions behind the bar', rows: found, columns: columns.map((key) => ({ key, text: key, number: key === 'score', ...(key.endsWith('_at') && { shows: (row) => instant(row[key]) }) })) }), h('button', { type: 'button', onclick: () => go({ bin: null }) }, 'Close')],
    data: { columns, rows: found },
    file: `${workspace.replace('/', '-')}-${day}-rows`,
    ways: waysOfSql(workspace, text, asOf),
  });
}

/** The page. */
export async function page(context) {
  const { workspace, chosen, signal, go } = context;
  const asOf = chosen.get('as-of');
  const day = chosen.get('day') ?? lastDay(await volume(workspace, signal));
  if (!day) return [h('p', { class: 'empty' }, 'There are no predictions yet.')];
  const parameters = { from: day, to: day, ...(asOf && { 'as-of': asOf }) };
  const [judged, confused, known] = await Promise.all([
    rows(ofWorkspace(workspace, 'evaluations'), parameters, { signal }),
    rows(ofWorkspace(workspace, 'confusion'), parameters, { signal }),
    models(workspace, signal),
  ]);
  const names = judged.map((row) => row.release);
  const release = names.includes(chosen.get('release')) ? chosen.get('release') : names.at(-1);
  const row = judged.find((one) => one.release === release);
  const top = [
    controls(
      h('div', { class: 'field pair' }, h('button', { type: 'button', onclick: () => go({ day: addDays(day, -1), bin: null }) }, '← Day before'), h('button', { type: 'button', onclick: () => go({ day: addDays(day, 1), bin: null }) }, 'Day after →')),
      field('Day', dayField(day, (value) => value && go({ day: value, bin: null }))),
      names.length > 0 && field('Release', select(release, names, (value) => go({ release: value, bin: null }))),
      field('Data as of', dayField(asOf, (value) => go({ 'as-of': value || null })))),
  ];
  if (!row) return [...top, card({ title: day, side: h('p', { class: 'empty' }, 'This day is not evaluated. Choose another one, or wait for outcomes.') })];
  const headlines = HEADLINES.filter((one) => typeof row[one] === 'number').slice(0, 4);
  const text = statement(day, release);
  const metric = chosen.get('metric') ?? headlines[0];
  const [binned, low] = await Promise.all([sql(workspace, text, asOf, { signal }), metric ? weakest(context, { ...parameters, release, metric }) : { found: [], says: 'No outcome of this day has come yet.' }]);
  const isRanking = typeof row.groups === 'number';
  const { series, reliable } = scores(isRanking ? [] : binned, row.positive_label ?? known[0]?.positive_label);
  const file = `${workspace.replace('/', '-')}-${day}-${release}`;
  const binLink = (one) => h('a', { href: link('day', workspace, { ...Object.fromEntries(chosen), day, release, bin: one.at }) }, `${(one.at / BINS).toFixed(2)} to ${((one.at + 1) / BINS).toFixed(2)}`);
  const isBinary = typeof row.threshold === 'number' && reliable.length > 0;
  return [
    ...top,
    h('dl', { class: 'stats' },
      stat('Predictions', count(row.predictions)), stat('Labelled', count(row.labelled), typeof row.maturity === 'number' ? `${(row.maturity * 100).toFixed(0)} %` : null),
      headlines.map((one) => metricStat(one, row[one], row.labelled)),
      row.erased > 0 && stat('With erased keys', count(row.erased))),
    series.length > 0 && h('div', { class: 'grid-2' },
      card({ title: 'Scores, by what came true', chart: histogram({ title: `Scores of ${release} on ${day}`, x: 'score', y: 'predictions', series }), side: null, data: { columns: ['outcome_label', 'bin', 'n', 'total'], rows: binned }, file: `${file}-scores`, ways: waysOfSql(workspace, text, asOf) }),
      isBinary && card({ title: 'Reliability', note: `How often ${row.positive_label} came true, by score; the dashed line is a perfect score`, chart: lineChart({ title: 'Share that came true by mean score', x: 'mean score', y: 'share that came true', dots: true, xs: [0, 1], series: [{ name: release, points: reliable.filter((one) => one.labelled).map((one) => ({ x: one.mean, y: one.share, note: `of ${count(one.labelled)}` })) }, { name: 'perfect', colour: 6, dashed: true, points: [{ x: 0, y: 0 }, { x: 1, y: 1 }] }], height: 240 }), file: `${file}-reliability` })),
    reliable.length > 0 && card({ title: 'Table', note: 'A score leads to the predictions that have it', side: table({ caption: 'Scores', rows: reliable, columns: [
      { key: 'at', text: 'Score', shows: binLink },
      { key: 'n', text: 'Predictions', number: true, shows: (one) => count(one.n) },
      { key: 'labelled', text: 'Labelled', number: true, shows: (one) => count(one.labelled) },
      { key: 'mean', text: 'Mean score', number: true },
      ...(isBinary ? [{ key: 'share', text: 'Came true', number: true }] : []),
    ] }), data: { columns: ['at', 'n', 'labelled', 'mean', 'share'], rows: reliable }, file: `${file}-bins` }),
    chosen.get('bin') && (await behind(context, day, release, asOf)),
    confused.length > 0 && card({ title: 'Confusion matrix', side: h('div', { class: 'matrices' }, names.map((one) => [one, confused.filter((other) => other.release === one)]).filter(([, all]) => all.length).map(([one, all]) => matrix(one, all))), data: { columns: ['release', 'truth', 'predicted', 'count'], rows: confused }, file: `${file}-confusion`, ways: ways('confusion', workspace, parameters) }),
    card({ title: 'Weakest slices', note: low.found.length > 0 && `${metric} by the values of the dimensions that the model declares`, side: low.found.length ? sliceTable(low.found, metric) : low.says ? h('p', { class: 'empty' }, prose(low.says)) : await declare(context, known, parameters), data: { columns: Object.keys(low.found[0] ?? { slice: 0 }), rows: low.found }, file: `${file}-slices`, ways: metric && ways('slices', workspace, { ...parameters, release, metric }) }),
  ];
}
