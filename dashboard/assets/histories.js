// The values of metrics of runs, step by step, as lines of a chart.

import { Problem, json } from './api.js';
import { lineChart } from './chart.js';
import { pathOf } from './training.js';
import { count, many } from './words.js';

/** The most values of a metric that are read, and the most of them that a line is drawn through. */
export const MOST_VALUES = 10_000;
const MOST_POINTS = 1_000;
/** The most points that are drawn as dots as well. */
const MOST_DOTS = 60;

/** The names that stand for a folder in a path. Browsers take them out of it, however they are written. */
const FOLDERS = ['.', '..'];

/** The values of a metric of a run by step, those of one step as they came; and whether there are more of them. Where it cannot be had, the `problem` says why: the other metrics are drawn all the same. */
export async function historyOf(workspace, run, metric, signal) {
  const without = (problem) => ({ points: [], isCut: false, problem });
  if (FOLDERS.includes(metric)) return without(`The history of \`${metric}\` cannot be asked for: in an address this name stands for a folder, and browsers take it out.`);
  try {
    const { points, next_cursor: next } = await json(`${pathOf(workspace, run)}/metrics/${encodeURIComponent(metric)}`, { limit: MOST_VALUES }, { signal });
    return { points: [...points].sort((a, b) => (a.step ?? 0) - (b.step ?? 0)), isCut: Boolean(next) };
  } catch (error) {
    // Who is not signed in any more is asked for a token by the frame.
    if (!(error instanceof Problem) || error.status === 401) throw error;
    return without(`The history of \`${metric}\` cannot be shown: ${error.message}`);
  }
}

/** Whether steps tell the values of any of these histories apart, or there are none to be told apart. */
const haveSteps = (histories) => histories.some(({ points }) => new Set(points.map((point) => point.step)).size > 1) || histories.every(({ points }) => points.length < 2);

/** Where each value stands on the axis: at its step, or else by the order in which it came. What is no number is a gap. */
function placed({ points }, bySteps) {
  return points.map(({ step, value, at }, n) => ({ x: bySteps ? step ?? 0 : n + 1, y: typeof value === 'number' ? value : null, value, at }));
}

/** Some of many points, evenly, and the last. */
const thinned = (points, every) => points.filter((point, at) => at % every === 0 || at === points.length - 1);

/** Histories, `{ name, points, isCut, problem }`, as a chart with a line each, as rows with a place and a value for each, and what there is to say of them; and why some cannot be had. */
export function drawn(metric, histories, height) {
  const bySteps = haveSteps(histories);
  const all = histories.map((history) => placed(history, bySteps));
  const every = Math.ceil(Math.max(1, ...all.map((points) => points.length)) / MOST_POINTS);
  const series = histories.map(({ name }, at) => ({ name, points: thinned(all[at], every), colour: histories[at].colour ?? at }));
  const rows = new Map();
  all.forEach((points, at) => points.forEach(({ x, value, at: when }) => {
    const key = histories.length > 1 ? x : rows.size;
    rows.set(key, { ...rows.get(key), x, at: when, [`value${at}`]: value });
  }));
  const axis = bySteps ? 'Step' : 'Number';
  const isLine = all.some((points) => points.filter((point) => point.y !== null).length > 1);
  const says = [
    bySteps ? 'by step' : 'by the order in which the values came',
    every > 1 && `a line is drawn through one of ${every} values`,
    histories.some((history) => history.isCut) && `of the first ${count(MOST_VALUES)} values`,
  ];
  const problems = new Set(histories.map((history) => history.problem).filter(Boolean));
  return {
    axis,
    problem: [...problems].join(' ') || null,
    rows: [...rows.values()].sort((a, b) => a.x - b.x),
    note: says.filter(Boolean).join('; '),
    chart: isLine ? lineChart({ title: `${metric} ${bySteps ? 'by step' : 'by number'} of ${histories.length > 1 ? many(histories.length, 'run') : histories[0].name}`, series, at: (x) => `${axis} ${count(x)}`, legend: histories.length > 1, dots: every === 1 && series.every((one) => one.points.length <= MOST_DOTS), height }) : null,
  };
}
