// Charts as SVG: lines over days or numbers, bars, and small lines without axes. Colours are classes of the style sheet.

import { fresh, h, s } from './dom.js';
import { dayOf, decimal, tick } from './words.js';

const COLOURS = 8;

/** The class of the n-th series: its colour and, when colours come again, its dashes. */
export const colour = (at) => `c${at % COLOURS} d${Math.floor(at / COLOURS) % 4}`;

function steps(low, high, most) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * power).find((one) => one >= rough * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) ticks.push(n * step);
  return { ticks, step };
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function dayTicks(low, high, most) {
  const span = high - low;
  const ticks = [];
  if (span > 45) {
    const months = [1, 2, 3, 6, 12, 24].find((one) => span / 30.4 / one <= most) ?? 60;
    const first = new Date(low * 86_400_000);
    for (let at = new Date(Date.UTC(first.getUTCFullYear(), 0, 1)); ; at = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + months, 1))) {
      const x = at.getTime() / 86_400_000;
      if (x > high) break;
      const year = at.getUTCMonth() === 0 || ticks.length === 0;
      if (x >= low) ticks.push({ x, text: `${MONTHS[at.getUTCMonth()]}${year ? ` ${at.getUTCFullYear()}` : ''}` });
    }
    return ticks;
  }
  const step = [1, 2, 7, 14].find((one) => span / one <= most) ?? 28;
  for (let x = Math.ceil(low); x <= high; x += step) {
    const at = new Date(x * 86_400_000);
    ticks.push({ x, text: `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}` });
  }
  return ticks;
}

const line = (points) => points.map(([x, y], at) => `${at ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

/** The most pixels along a line by which its dashes are placed. */
const DASHED = 3000;

/** The length by which dashes are placed along a line; `null`, when it is its own. Dashes of a longer line are longer: a browser takes
 *  a second to paint many thousands of them. */
function dashedAs(places) {
  let length = 0;
  for (let at = 1; at < places.length; at += 1) length += Math.hypot(places[at][0] - places[at - 1][0], places[at][1] - places[at - 1][1]);
  return length > DASHED ? DASHED : null;
}

/** The pieces of a series between its gaps. */
function pieces(points) {
  const all = [[]];
  for (const point of points) {
    if (point.y === null || point.y === undefined) all.push([]);
    else all.at(-1).push(point);
  }
  return all.filter((piece) => piece.length);
}

/** What the axes reach from and to. */
function reach({ series, marks = [], lines = [], zero, xs }, zoom) {
  const isWithin = ({ x }) => !zoom || (x >= zoom[0] && x <= zoom[1]);
  const points = series.flatMap((one) => one.points).filter((point) => point.y !== null && point.y !== undefined && isWithin(point));
  const values = points.flatMap((point) => [point.y, point.low, point.high]).concat(lines.map((one) => one.y));
  const ys = values.filter((value) => typeof value === 'number' && Number.isFinite(value));
  let [bottom, top] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
  if (zero) [bottom, top] = [Math.min(0, bottom), Math.max(0, top)];
  if (bottom === top) [bottom, top] = [bottom - (Math.abs(bottom) * 0.1 || 0.5), top + (Math.abs(top) * 0.1 || 0.5)];
  const room = (top - bottom) * 0.06;
  if (!(zero && bottom === 0)) bottom -= room;
  top += room;
  const all = points.map((point) => point.x).concat(marks.map((mark) => mark.x));
  let [left, right] = zoom ?? xs ?? (all.length ? [Math.min(...all), Math.max(...all)] : [0, 1]);
  if (left === right) [left, right] = [left - 1, right + 1];
  return { bottom, top, left, right };
}

function axes(options, scale, size) {
  const { bottom, top, left, right } = scale.reach;
  const parts = [];
  const rows = steps(bottom, top, Math.max(4, Math.floor(size.height / 52)));
  for (const value of rows.ticks) {
    const y = scale.y(value);
    parts.push(s('line', { class: 'grid', x1: size.left, x2: size.width - size.right, y1: y, y2: y }));
    parts.push(s('text', { class: 'tick', x: size.left - 8, y: y + 4, 'text-anchor': 'end' }, tick(value, rows.step)));
  }
  const most = Math.max(2, Math.floor((size.width - size.left - size.right) / 84));
  const columns = options.days
    ? dayTicks(left, right, most)
    : (({ ticks, step }) => ticks.map((x) => ({ x, text: tick(x, step) })))(steps(left, right, most));
  for (const one of columns) {
    const x = scale.x(one.x);
    parts.push(s('line', { class: 'notch', x1: x, x2: x, y1: size.height - size.foot, y2: size.height - size.foot + 5 }));
    parts.push(s('text', { class: 'tick', x, y: size.height - size.foot + 19, 'text-anchor': 'middle' }, one.text));
  }
  parts.push(s('line', { class: 'axis', x1: size.left, x2: size.width - size.right, y1: size.height - size.foot, y2: size.height - size.foot }));
  const [x, y] = [options.x ?? (options.days ? 'day (UTC)' : ''), options.y ?? ''];
  parts.push(s('text', { class: 'tick title-x', x: size.width - size.right, y: size.height - 4, 'text-anchor': 'end' }, x), s('text', { class: 'tick title-y', x: 4, y: 12 }, y));
  return parts;
}

function drawn(options, scale, size) {
  const { series, marks = [], shades = [], lines = [] } = options;
  const floor = size.height - size.foot;
  const parts = [];
  for (const shade of shades) {
    const [from, to] = [scale.x(Math.max(shade.from, scale.reach.left)), scale.x(Math.min(shade.to, scale.reach.right))];
    if (to > from) parts.push(s('rect', { class: 'shade', x: from, width: to - from, y: size.head, height: floor - size.head }, s('title', null, shade.text)));
  }
  parts.push(...axes(options, scale, size));
  for (const one of lines.filter(({ y }) => y >= scale.reach.bottom && y <= scale.reach.top)) {
    parts.push(s('line', { class: 'threshold', x1: size.left, x2: size.width - size.right, y1: scale.y(one.y), y2: scale.y(one.y) }, s('title', null, one.text)));
  }
  const clip = fresh('clip');
  parts.push(s('clipPath', { id: clip }, s('rect', { x: size.left - 4, width: size.width - size.left - size.right + 8, y: 0, height: floor + 4 })));
  const plot = s('g', { 'clip-path': `url(#${clip})` });
  series.forEach((one, at) => {
    for (const piece of pieces(one.points)) {
      const band = piece.filter((point) => typeof point.low === 'number' && typeof point.high === 'number');
      if (band.length > 1) {
        const edge = [...band.map((p) => [scale.x(p.x), scale.y(p.high)]), ...band.reverse().map((p) => [scale.x(p.x), scale.y(p.low)])];
        plot.append(s('path', { class: `band ${colour(one.colour ?? at)}`, d: `${line(edge)}Z` }));
      }
    }
  });
  series.forEach((one, at) => {
    const kind = colour(one.colour ?? at);
    for (const piece of pieces(one.points)) {
      const places = piece.map((point) => [scale.x(point.x), scale.y(point.y)]);
      if (places.length > 1) plot.append(s('path', { class: `line ${one.dashed ? 'dashed' : ''} ${kind}`, d: line(places), pathLength: dashedAs(places) }));
      const dots = (options.dots && !one.dashed) || places.length === 1;
      piece.forEach((point, n) => {
        if (dots || point.hollow) plot.append(s('circle', { class: `dot ${point.hollow ? 'hollow' : ''} ${kind}`, cx: places[n][0], cy: places[n][1], r: 3 }));
      });
    }
  });
  parts.push(plot);
  let last = { x: -Infinity, row: 0 };
  const { left, right } = scale.reach;
  for (const mark of marks.filter(({ x }) => x >= left && x <= right).sort((a, b) => a.x - b.x)) {
    const x = scale.x(mark.x);
    const row = x - last.x < 90 ? (last.row + 1) % 3 : 0;
    last = { x, row };
    const end = x > size.width - 110;
    parts.push(s('line', { class: 'mark', x1: x, x2: x, y1: size.head - 4, y2: floor }));
    parts.push(s('text', { class: 'mark-text', x: end ? x - 5 : x + 5, y: size.head + 8 + row * 14, 'text-anchor': end ? 'end' : 'start' }, mark.text, s('title', null, mark.title ?? mark.text)));
  }
  return parts;
}

/** What each series has at one place, for who points or steps there; below the chart, where it covers no line. */
function reader(svg, tip, options, scale, size) {
  const { left: first, right: last } = scale.reach;
  const xs = [...new Set(options.series.flatMap((one) => one.points.map((point) => point.x)))].filter((x) => x >= first && x <= last).sort((a, b) => a - b);
  const cursor = s('line', { class: 'cursor', y1: size.head, y2: size.height - size.foot, visibility: 'hidden' });
  svg.append(cursor);
  let at = -1;
  const show = (next) => {
    at = Math.max(0, Math.min(xs.length - 1, next));
    const x = xs[at];
    if (x === undefined) return;
    for (const end of ['x1', 'x2']) cursor.setAttribute(end, scale.x(x));
    cursor.setAttribute('visibility', 'visible');
    const rows = options.series.map((one, n) => [one, n, one.points.find((point) => point.x === x)]).filter(([, , point]) => point && typeof point.y === 'number');
    const range = (point) => (typeof point.low === 'number' ? ` (${decimal(point.low)} to ${decimal(point.high)})` : '');
    tip.replaceChildren(
      h('strong', null, options.days ? dayOf(Math.round(x)) : (options.at ?? decimal)(x)),
      ...rows.slice(0, 12).map(([one, n, point]) => h('div', { class: 'tip-row' }, h('span', { class: `swatch ${colour(one.colour ?? n)}` }), h('bdi', { class: 'tip-name' }, one.name), h('span', { class: 'number' }, `${decimal(point.y)}${range(point)}`), point.note && h('span', { class: 'quiet' }, point.note))),
    );
    tip.hidden = false;
    const left = scale.x(x);
    tip.style.left = left > size.width / 2 ? 'auto' : `${left}px`;
    tip.style.right = left > size.width / 2 ? `${size.width - left}px` : 'auto';
  };
  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute('visibility', 'hidden');
  };
  const point = (place) => {
    const x = scale.back(place);
    let best = 0;
    xs.forEach((one, n) => {
      if (Math.abs(one - x) < Math.abs(xs[best] - x)) best = n;
    });
    show(best);
  };
  return { point, hide, step: (by) => show(at + by), to: (next) => show(next < 0 ? xs.length - 1 : next), x: () => xs[at] ?? (first + last) / 2 };
}

/** From so many series on a legend may have more rows than its place, where it scrolls, by keys as well. */
const LONG_LEGEND = 8;

/** The names of all series beside their colours, in the form that `form` says of each; with `toggle` each is a button that hides and shows its series. */
function legendOf(series, form, hidden, toggle) {
  const scrolls = series.length >= LONG_LEGEND && { tabindex: 0, 'aria-label': 'Legend' };
  const entry = (one, at) => [h('span', { class: `swatch ${form(one)} ${colour(one.colour ?? at)}` }), h('bdi', { class: 'name' }, one.name)];
  const press = (name) => (event) => event.currentTarget.setAttribute('aria-pressed', String(toggle(name)));
  return h('ul', { class: 'legend', ...scrolls }, series.map((one, at) => h('li', null, toggle ? h('button', { type: 'button', 'aria-pressed': String(!hidden.has(one.name)), onclick: press(one.name) }, entry(one, at)) : entry(one, at))));
}

/** What is hidden of a chart and how far it is zoomed, by page and title, so that a page that is looked at again shows the same. */
const views = new Map();

/** The fewest pixels that are dragged for a zoom. */
const DRAGGED = 8;

/** The listeners of a chart: the pointer reads and drags for a zoom, keys step, `+`, `-` and `0` zoom. */
function listens(stage, current, zoomTo) {
  let from = null;
  const placeOf = (event) => event.clientX - stage.getBoundingClientRect().left;
  const brush = (to) => {
    const { svg, size } = current();
    const [a, b] = [from, to].sort((one, other) => one - other);
    svg.querySelector('.brush')?.remove();
    if (b - a >= DRAGGED) svg.append(s('rect', { class: 'brush', x: a, width: b - a, y: size.head, height: size.height - size.foot - size.head }));
  };
  stage.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || !current()) return;
    from = placeOf(event);
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener('pointermove', (event) => {
    current()?.reads.point(placeOf(event));
    if (from !== null) brush(placeOf(event));
  });
  stage.addEventListener('pointerup', (event) => {
    if (from === null) return;
    const ends = [from, placeOf(event)].sort((one, other) => one - other);
    from = null;
    current().svg.querySelector('.brush')?.remove();
    if (ends[1] - ends[0] >= DRAGGED) zoomTo(ends.map(current().scale.back));
  });
  stage.addEventListener('pointercancel', () => {
    from = null;
    current()?.svg.querySelector('.brush')?.remove();
  });
  stage.addEventListener('pointerleave', () => current()?.reads.hide());
  stage.addEventListener('dblclick', () => zoomTo(null));
  stage.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !current()) return;
    const { reads, scale } = current();
    const { left, right } = scale.reach;
    const zoom = (by) => zoomTo([reads.x() - (right - left) * by, reads.x() + (right - left) * by]);
    const keys = { ArrowLeft: () => reads.step(-1), ArrowRight: () => reads.step(1), Home: () => reads.to(0), End: () => reads.to(-1), '+': () => zoom(0.25), '-': () => zoom(1), 0: () => zoomTo(null), Escape: () => reads.hide() };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** Lines over days (`days`) or numbers (`at` says what one is), with axes titled `x` and `y`, a legend, marks, shades and a reader; drawn again when its width changes. */
export function lineChart(options) {
  const stage = h('div', { class: 'stage', tabindex: 0, role: 'group', 'aria-label': `${options.title}. The arrow keys move from point to point, + and - zoom; the table has all numbers.` });
  const tip = h('div', { class: 'tip', role: 'status', hidden: true });
  const key = `${location.hash} ${options.title}`;
  const view = views.get(key) ?? { hidden: new Set(), zoom: null };
  views.set(key, view);
  const all = options.series.map((one, at) => ({ ...one, colour: one.colour ?? at }));
  const whole = reach(options);
  let now = null;
  const draw = (width) => {
    const shown = { ...options, series: all.filter((one) => !view.hidden.has(one.name)) };
    const size = { width, height: options.height ?? 300, left: 58, right: 24, head: options.y ? 22 : (options.marks ?? []).length ? 14 : 8, foot: 44 };
    const bounds = reach(view.zoom || view.hidden.size === 0 ? shown : { ...shown, xs: [whole.left, whole.right] }, view.zoom);
    const scale = {
      reach: bounds,
      x: (x) => size.left + ((x - bounds.left) / (bounds.right - bounds.left)) * (size.width - size.left - size.right),
      y: (y) => size.height - size.foot - ((y - bounds.bottom) / (bounds.top - bounds.bottom)) * (size.height - size.foot - size.head),
      back: (place) => bounds.left + ((place - size.left) / (size.width - size.left - size.right)) * (bounds.right - bounds.left),
    };
    const svg = s('svg', { viewBox: `0 0 ${width} ${size.height}`, width, height: size.height, role: 'img', 'aria-label': options.title }, drawn(shown, scale, size));
    now = { svg, size, scale, reads: reader(svg, tip, shown, scale, size) };
    tip.hidden = true;
    stage.replaceChildren(svg, tip);
  };
  const again = () => now && draw(now.size.width);
  const reset = h('button', { type: 'button', class: 'reset', hidden: !view.zoom, onclick: () => zoomTo(null) }, 'Show all');
  const zoomTo = (ends) => {
    const [left, right] = ends ? [Math.max(ends[0], whole.left), Math.min(ends[1], whole.right)] : [];
    view.zoom = ends && right > left && right - left < (whole.right - whole.left) * 0.999 ? [left, right] : null;
    reset.hidden = !view.zoom;
    again();
  };
  const toggle = (name) => {
    if (!view.hidden.delete(name)) view.hidden.add(name);
    again();
    return !view.hidden.has(name);
  };
  listens(stage, () => now, zoomTo);
  watchWidth(stage, draw);
  const legend = (all.length > 1 || options.legend) && legendOf(all, (one) => (one.dashed ? 'dashed' : ''), view.hidden, all.length > 1 && toggle);
  return h('div', { class: 'chart' }, h('div', { class: 'over' }, legend, reset), stage);
}

const drawers = new WeakMap();
const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const known = drawers.get(target);
    const width = Math.round(contentRect.width);
    if (known && width > 0 && known.width !== width) {
      known.width = width;
      known.draw(width);
    }
  }
});

function watchWidth(element, draw) {
  drawers.set(element, { draw, width: 0 });
  observer.observe(element);
}

/** A small line without axes. */
export function sparkline(values, title) {
  const [width, height] = [160, 36];
  const top = Math.max(1, ...values);
  const place = (value, at) => [2 + (at / Math.max(1, values.length - 1)) * (width - 4), height - 3 - (value / top) * (height - 8)];
  const places = values.map(place);
  const area = places.length > 1 ? `${line(places)}L${places.at(-1)[0].toFixed(1)} ${height - 2}L${places[0][0].toFixed(1)} ${height - 2}Z` : '';
  return s('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title },
    s('path', { class: 'spark-area', d: area }), s('path', { class: 'spark-line', d: line(places) }));
}

/** The height of a row of a chart, and the name before it, cut to the room that is left of `left`. */
const ROW = 28;
function rowName(text, at, left) {
  const letters = Math.floor((left - 14) / 7.4);
  const cut = text.length > letters ? `${[...text].slice(0, letters - 1).join('')}…` : text;
  return s('text', { class: 'bar-name', x: left - 10, y: at * ROW + 21, 'text-anchor': 'end' }, cut, s('title', null, text));
}

/** Points with their intervals, a row each, the first one on top, and a line at zero: `{ name, value, low, high }`. */
export function intervalChart({ title, rows, x: says = '' }) {
  const stage = h('div', { class: 'stage', role: 'group', 'aria-label': title });
  const draw = (width) => {
    const [left, right, foot] = [Math.min(200, width * 0.38), 24, 44];
    const height = rows.length * ROW + 8 + foot;
    const [low, high] = [Math.min(0, ...rows.map((row) => row.low)), Math.max(0, ...rows.map((row) => row.high))];
    const room = (high - low || 1) * 0.04;
    const x = (value) => left + ((value - low + room) / (high - low + 2 * room || 1)) * (width - left - right);
    const { ticks, step } = steps(low, high, Math.max(2, Math.floor((width - left - right) / 84)));
    const parts = ticks.flatMap((one) => [
      s('line', { class: 'grid', x1: x(one), x2: x(one), y1: 2, y2: height - foot }),
      s('text', { class: 'tick', x: x(one), y: height - foot + 19, 'text-anchor': 'middle' }, tick(one, step)),
    ]);
    parts.push(s('line', { class: 'threshold', x1: x(0), x2: x(0), y1: 2, y2: height - foot }), s('text', { class: 'tick title-x', x: width - right, y: height - 4, 'text-anchor': 'end' }, says));
    rows.forEach((row, at) => parts.push(
      rowName(row.name, at, left),
      s('line', { class: `line ${colour(0)}`, x1: x(row.low), x2: x(row.high), y1: at * ROW + 16, y2: at * ROW + 16 }, s('title', null, `${row.name}: ${decimal(row.low)} to ${decimal(row.high)}`)),
      s('circle', { class: `dot ${colour(0)}`, cx: x(row.value), cy: at * ROW + 16, r: 5 }, s('title', null, `${row.name}: ${decimal(row.value)}`)),
    ));
    stage.replaceChildren(s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title }, parts));
  };
  watchWidth(stage, draw);
  return h('div', { class: 'chart' }, stage);
}

/** Bars from zero to the right, the first one on top: `{ name, value, note }`. */
export function barChart({ title, bars, lines = [], format = decimal, x: says = '' }) {
  const stage = h('div', { class: 'stage', role: 'group', 'aria-label': title });
  const draw = (width) => {
    const [row, left, right] = [ROW, Math.min(200, width * 0.38), 76];
    const height = bars.length * row + 8 + (says ? 18 : 0);
    const top = Math.max(...bars.map((bar) => Math.abs(bar.value)), ...lines.map((one) => one.y), 1e-12);
    const x = (value) => left + (Math.abs(value) / top) * (width - left - right);
    const parts = bars.flatMap((bar, at) => [
      rowName(bar.name, at, left),
      s('rect', { class: `bar ${colour(bar.colour ?? 0)}`, x: left, y: at * row + 7, height: row - 10, width: Math.max(1, x(bar.value) - left), rx: 2 }, s('title', null, `${bar.name}: ${format(bar.value)}`)),
      s('text', { class: 'tick', x: x(bar.value) + 8, y: at * row + 21 }, format(bar.value)),
    ]);
    for (const one of lines) parts.push(s('line', { class: 'threshold', x1: x(one.y), x2: x(one.y), y1: 2, y2: bars.length * row + 6 }, s('title', null, one.text)));
    parts.push(s('text', { class: 'tick title-x', x: left, y: height - 4 }, says));
    stage.replaceChildren(s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title }, parts));
  };
  watchWidth(stage, draw);
  return h('div', { class: 'chart' }, stage);
}

/** Upright bars over numbers, one colour a series, side by side: `{ name, bins: [{ from, to, value }] }`. */
export function histogram({ title, series, x: across, y: up, height = 240 }) {
  const stage = h('div', { class: 'stage', role: 'group', 'aria-label': title });
  const legend = series.length > 1 && legendOf(series, () => 'block');
  const draw = (width) => {
    const size = { width, height, left: 58, right: 16, head: 22, foot: 44 };
    const all = series.flatMap((one) => one.bins);
    const bounds = { left: Math.min(...all.map((bin) => bin.from)), right: Math.max(...all.map((bin) => bin.to)), bottom: 0, top: Math.max(...all.map((bin) => bin.value), 1e-12) * 1.06 };
    const x = (value) => size.left + ((value - bounds.left) / (bounds.right - bounds.left || 1)) * (width - size.left - size.right);
    const y = (value) => height - size.foot - (value / bounds.top) * (height - size.foot - size.head);
    const parts = axes({ x: across, y: up }, { reach: bounds, x, y }, size);
    series.forEach((one, at) => one.bins.forEach((bin) => {
      const each = (x(bin.to) - x(bin.from) - 2) / series.length;
      parts.push(s('rect', { class: `bar ${colour(one.colour ?? at)}`, x: x(bin.from) + 1 + at * each, width: Math.max(0.5, each), y: y(bin.value), height: height - size.foot - y(bin.value) }, s('title', null, `${one.name}, ${decimal(bin.from)} to ${decimal(bin.to)}: ${decimal(bin.value)}`)));
    }));
    stage.replaceChildren(s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title }, parts));
  };
  watchWidth(stage, draw);
  return h('div', { class: 'chart' }, legend, stage);
}
