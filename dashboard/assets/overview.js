// The overview of a workspace: what is live, its health, how good it is beside the period before, where it is worst, what drifted and what changed lately; and the first steps where there is nothing yet.

import { Problem, json, link, ofWorkspace, rows, text } from './api.js';
import { barChart, lineChart, sparkline } from './chart.js';
import { FEW, badge, controls, field, lastDay, live, metricNumber, models, promotions, releases, select, usualReference, volume } from './common.js';
import { MEASURES, NOTICEABLE, declare, weakest } from './drift.js';
import { h, name, prose } from './dom.js';
import { quoted, snippet } from './share.js';
import { addDays, count, dayNumber, decimal, duration, many, minute, percent, today } from './words.js';
import { VERSION } from './version.js';

/** How many days are held against as many before them; the longest that has predictions before it unless one is chosen. */
const PERIODS = [7, 30];
/** How often it is looked again where what moves is not heard, in milliseconds. */
const EVERY = 30_000;
/** The days whose labels are counted, and those of the small line of predictions. */
const LATEST = 7;
const SPARK_DAYS = 60;
/** How many days before the period are the reference of drift. */
const REFERENCE = 60;
/** The most releases, columns and changes that are shown. */
const MOST_RELEASES = 3;
const MOST_COLUMNS = 5;
const MOST_CHANGES = 12;
const LOWER_IS_BETTER = new Set(['brier', 'log_loss', 'ece', 'ece_sklearn', 'ece_guo', 'mae', 'rmse', 'mse', 'mape', 'smape', 'msle', 'median_absolute_error', 'fpr', 'fnr', 'pinball']);
const PAST = { register: 'registered', promote: 'promoted', rollback: 'rolled back to', retire: 'retired', define: 'defined', fires: 'fires', resolves: 'resolved' };
const TONES = { promote: 'good', rollback: 'warn', fires: 'bad', resolves: 'good' };

/** How long something has lasted: whole days, else more closely. */
function since(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1_000;
  const days = Math.floor(seconds / 86_400);
  return days >= 2 ? many(days, 'day') : duration(seconds);
}

const empty = (...says) => h('p', { class: 'empty' }, says.map(prose));
const fact = (term, ...what) => h('div', null, h('dt', null, term), h('dd', null, what));

/** What makes a command call this service. */
const HERE = `--url ${location.origin}`;

/** What follows `-w` in a command for this workspace and this service. */
const placeOf = (workspace) => `${quoted(workspace)} ${HERE}`;

/** Telemetry of the projector; `null`, where the caller may not read the server. */
async function projector(signal) {
  try {
    const lines = (await text('/metrics', {}, { signal })).split('\n').map((line) => /^almanac_projector_(\w+?)(?:\{[^}]*\})? (\S+)$/.exec(line));
    return Object.fromEntries(lines.filter(Boolean).map(([, key, value]) => [key, Number(value)]));
  } catch (error) {
    if (error instanceof Problem && [403, 404].includes(error.status)) return null;
    throw error;
  }
}

/** A card that fills itself when its content has come, and is busy until then. */
function filling({ signal, failed, quietly }, title, href, content, wide) {
  const body = h('div', { class: 'stacked' }, h('p', { class: 'quiet' }, 'Loading'));
  const section = h('section', { class: `card${wide ? ' whole-row' : ''}`, 'aria-busy': 'true' }, h('div', { class: 'card-head' }, h('h2', null, href ? h('a', { class: 'strong', href }, title) : title)), body);
  const cannot = (error) => {
    if (signal.aborted) return;
    if (!(error instanceof Problem) || error.status === 401) failed(error);
    else body.replaceChildren(empty(`This could not be loaded: ${error.message}`));
  };
  const filled = content.then((parts) => body.replaceChildren(...[parts].flat(Infinity).filter(Boolean)));
  const done = (quietly ? filled : filled.catch(cannot)).finally(() => section.removeAttribute('aria-busy'));
  return { section, done };
}

/** The period up to the last day with predictions, the one before it, and all days with predictions. */
function periodsOf(days, chosen) {
  const predicted = days.filter((one) => one.predictions > 0);
  const last = predicted.at(-1)?.day;
  if (!last) return null;
  const usual = PERIODS.findLast((length) => predicted[0].day <= addDays(last, -length)) ?? PERIODS[0];
  const length = PERIODS.find((one) => String(one) === chosen.get('days')) ?? usual;
  const ending = (to) => ({ from: addDays(to, 1 - length), to });
  return { length, last, predicted, now: ending(last), before: ending(addDays(last, -length)) };
}

/** The releases whose metric is shown: the live ones, else that with the most predictions of the period. */
function shownReleases(alive, whole) {
  const names = [...new Set(alive.map((one) => one.release))];
  const most = [...whole].sort((a, b) => b.predictions - a.predictions)[0];
  return names.length || !most ? names : [most.release];
}

/** What was live in the period before in place of those of `alive` that have nothing to compare with: by release, its row and its days. */
async function liveThen(of, before, alive) {
  const found = await Promise.all([...new Set(alive.map((one) => one.environment))].map(async (environment) => {
    const [whole, daily] = await Promise.all([of(before, { environment, period: 'all' }), of(before, { environment })]);
    return alive.filter((one) => one.environment === environment).map(({ release, model }) => [release, { row: whole.find((row) => row.model === model), daily: daily.filter((row) => row.model === model) }]);
  }));
  return new Map(found.flat());
}

/** What is evaluated of both periods: by day, and each as a whole. */
async function evaluated({ workspace, signal }, asks) {
  const [periods, alive, settings, known] = await Promise.all([asks.periods, asks.live, asks.settings, asks.models]);
  if (!periods) return null;
  // A logged metric is not evaluated.
  const primary = settings?.primary_metric?.startsWith('metric.') ? null : settings?.primary_metric;
  const metric = primary ?? (known.find((one) => !alive.length || one.name === alive[0].model)?.task === 'regression' ? 'mae' : 'accuracy');
  const path = ofWorkspace(workspace, 'evaluations');
  const columns = `day,model,release,predictions,labelled,maturity,${metric}`;
  const of = (window, more) => rows(path, { ...window, columns, ...more }, { signal });
  const [daily, now, before] = await Promise.all([
    of({ from: periods.before.from, to: periods.now.to }), of(periods.now, { period: 'all' }), of(periods.before, { period: 'all' }),
  ]);
  const then = await liveThen(of, periods.before, alive.filter(({ release }) => !before.some((row) => row.release === release && typeof row[metric] === 'number')));
  const isLower = primary ? settings.direction === 'min' : LOWER_IS_BETTER.has(metric);
  return { ...periods, whole: now, was: before, then, daily, metric, isLower, isChosen: Boolean(settings?.primary_metric), logged: primary ? null : settings?.primary_metric, releases: shownReleases(alive, now), isLive: alive.length > 0 };
}

const quantile = (sorted, share) => sorted[Math.round((sorted.length - 1) * share)];

/** Mean and error of the mean of the days that have a metric. */
function spreadOf(values) {
  const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
  return { mean, error: Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (values.length - 1) / values.length) };
}

/** How a metric changed, told beside how far days are from each other. */
function changeOf({ metric, isLower }, row, old, days, oldDays) {
  if (typeof old?.[metric] !== 'number') return badge('none', 'nothing before to compare with');
  if (row.labelled < FEW || old.labelled < FEW) return badge('none', 'too few labels to compare');
  const by = row[metric] - old[metric];
  const says = `${by < 0 ? '−' : '+'}${decimal(Math.abs(by))}`;
  const [a, b] = [spreadOf(days), spreadOf(oldDays)];
  if (!(Math.abs(by) > 2 * Math.hypot(a.error, b.error))) return badge('none', `${says}, within what days differ by`);
  return by < 0 === isLower ? badge('good', `${says}, better`) : badge('bad', `${says}, worse`);
}

/** The metric of one release beside the period before. */
function headline(context, data, release) {
  const { metric, length, now, before } = data;
  const row = data.whole.find((one) => one.release === release);
  const then = data.then.get(release);
  const old = then ? then.row : data.was.find((one) => one.release === release);
  const href = link('metrics', context.workspace, { from: before.from, to: now.to, metric, release });
  const title = h('h3', null, h('a', { class: 'strong', href }, name(release)));
  if (typeof row?.[metric] !== 'number') return h('div', { class: 'headline' }, title, h('p', { class: 'quiet' }, `No label of ${now.from} to ${now.to} has come for it yet.`));
  const values = (all, { from, to }) => all.filter((one) => typeof one[metric] === 'number' && one.day >= from && one.day <= to).map((one) => one[metric]);
  const own = data.daily.filter((one) => one.release === release);
  const [days, oldDays] = [values(own, now), values(then ? then.daily : own, before)];
  const sorted = [...days].sort((a, b) => a - b);
  return h('div', { class: 'headline' }, title,
    h('p', null, metricNumber(row[metric], row.labelled), ' ', changeOf(data, row, old, days, oldDays)),
    h('p', { class: 'quiet' }, typeof old?.[metric] === 'number' ? [then ? `What was live the ${length} days before: ` : `${length} days before: `, h('span', { class: 'before number' }, decimal(old[metric])), ` of ${count(old.labelled)} labelled. `] : `No label of ${before.from} to ${before.to}. `,
      sorted.length > 4 && `Eight of ten days from ${decimal(quantile(sorted, 0.1))} to ${decimal(quantile(sorted, 0.9))}.`));
}

async function metricCard(context, asks) {
  const [data, entries] = await Promise.all([asks.evaluated, asks.entries]);
  if (!data) return empty('There are no predictions yet.');
  const { metric, daily, before, now } = data;
  const shown = data.releases.slice(0, MOST_RELEASES);
  const points = (release) => daily.filter((row) => row.release === release).map((row) => ({ x: dayNumber(row.day), y: row[metric], note: `of ${count(row.labelled)} labelled`, hollow: row.labelled < FEW })).sort((a, b) => a.x - b.x);
  const series = shown.map((release) => ({ name: release, points: points(release) }));
  const has = series.some((one) => one.points.some((point) => typeof point.y === 'number'));
  return [
    h('p', { class: 'quiet' }, h('strong', null, metric), `, ${now.from} to ${now.to}, beside the ${data.length} days before. `, !data.isLive && 'Nothing is live: this is the release with the most predictions. ',
      data.logged && `The primary metric ${data.logged} is logged, not evaluated. `, !data.isChosen && prose(`No primary metric is set; \`almanac workspace settings ${quoted(context.workspace)} --primary-metric ${metric} ${HERE}\` makes it this one.`)),
    h('div', { class: 'headlines' }, shown.map((release) => headline(context, data, release))),
    has && lineChart({ title: `${metric} by day, ${before.from} to ${now.to}`, y: metric, days: true, series, legend: shown.length > 1, height: 220, xs: [dayNumber(before.from), dayNumber(now.to)], shades: [{ from: dayNumber(before.from), to: dayNumber(now.from) - 0.5, text: `The ${data.length} days before` }], marks: promotions(entries, { from: before.from, to: now.to }) }),
  ];
}

async function liveCard({ workspace, signal }, asks) {
  const alive = await asks.live;
  if (alive.length) {
    return h('ul', { class: 'lines' }, alive.map((one) => h('li', { class: 'live' },
      h('a', { class: 'strong', href: link('metrics', workspace, { release: one.release }) }, name(one.release)), h('span', { class: 'quiet' }, ' of ', name(one.model), ' in ', name(one.environment)),
      h('div', { class: 'quiet' }, `since ${minute(one.since)} UTC, for ${since(one.since)}`))));
  }
  const release = (await releases(workspace, signal)).at(-1)?.name;
  return release
    ? [empty('Nothing is live. This makes the newest release live:'), snippet('Make it live', `almanac release promote ${quoted(release)} --environment production -w ${placeOf(workspace)}`)]
    : empty('Nothing is live: there is no release yet.');
}

/** How long rules have been firing. */
function firingNow(workspace, rules, transitions) {
  return h('ul', { class: 'lines' }, rules.map((rule) => {
    const began = transitions.find((one) => one.rule === rule.name && one.what === 'fires');
    return h('li', null, badge('bad', 'fires'), ' ', h('a', { href: link('alerts', workspace, { rule: rule.name }) }, name(rule.name)), began && h('span', { class: 'quiet' }, ` for ${since(began.at)}, since ${began.day}`));
  }));
}

function alertsFact(workspace, { rules }, transitions) {
  const firing = rules.filter((rule) => rule.state === 'firing');
  const isKnown = rules.some((rule) => !['no_data', undefined].includes(rule.state));
  if (firing.length) return firingNow(workspace, firing, transitions);
  if (rules.length) return isKnown ? badge('good', `none of ${many(rules.length, 'rule')} fires`) : badge('none', `${many(rules.length, 'rule')}, not evaluated yet`);
  const rule = '[[rules]]\nname = "no-predictions"\nmissing = "predictions"\nby = "06:00"';
  return [badge('none', 'no rules'), snippet('Add a rule', `almanac alert apply - -w ${placeOf(workspace)} <<END\n${rule}\nEND`)];
}

function projectorFact(metrics) {
  if (!metrics) return h('span', { class: 'quiet' }, 'for those to see who may read the server');
  const lag = metrics.lag_segments ?? 0;
  const letters = metrics.dead_letters ?? 0;
  return [lag ? badge('warn', `${many(lag, 'segment')} behind, ${duration(metrics.lag_seconds ?? 0)}`) : badge('good', 'up to date'), letters > 0 && [' ', badge('bad', many(letters, 'dead letter'))]];
}

/** How much of the predictions of the last days has labels. */
function labelsFact(workspace, data) {
  const from = addDays(data.last, 1 - LATEST);
  const found = data.daily.filter((row) => row.day >= from && data.releases.includes(row.release) && row.predictions > 0);
  if (!found.length) return h('span', { class: 'quiet' }, 'not evaluated yet');
  const sum = (key) => found.reduce((total, row) => total + row[key], 0);
  const least = [...found].sort((a, b) => a.labelled / a.predictions - b.labelled / b.predictions)[0];
  return [h('strong', { class: 'number completeness' }, percent(sum('labelled') / sum('predictions'))), h('span', { class: 'quiet' }, ` of ${count(sum('predictions'))} predictions of ${many(LATEST, 'day')} have labels; least `),
    h('a', { href: link('day', workspace, { day: least.day, release: least.release }) }, least.day), h('span', { class: 'quiet' }, `, ${percent(least.labelled / least.predictions)}`)];
}

async function healthCard({ workspace }, asks) {
  const [periods, data, rules, transitions, metrics] = await Promise.all([asks.periods, asks.evaluated, asks.rules, asks.transitions, asks.projector]);
  const age = periods && dayNumber(today()) - dayNumber(periods.last);
  const of = new Map(periods?.predicted.map((one) => [one.day, one.predictions]));
  const line = periods && Array.from({ length: SPARK_DAYS }, (_, at) => of.get(addDays(periods.last, at + 1 - SPARK_DAYS)) ?? 0);
  return h('dl', { class: 'health' },
    fact('Latest predictions', periods ? [h('a', { href: link('day', workspace, { day: periods.last }) }, periods.last), h('span', { class: 'quiet' }, `, ${age <= 0 ? 'today' : `${many(age, 'day')} ago`}: ${count(of.get(periods.last))}`), sparkline(line, `Predictions a day, the last ${SPARK_DAYS} days: ${count(Math.min(...line))} to ${count(Math.max(...line))}`)] : h('span', { class: 'quiet' }, 'none yet')),
    data && fact('Labels', labelsFact(workspace, data)),
    fact('Projector', projectorFact(metrics)),
    fact('Alerts', alertsFact(workspace, rules, transitions)));
}

async function sliceCard(context, asks) {
  const [data, known] = await Promise.all([asks.evaluated, asks.models]);
  const release = data?.releases[0];
  if (!release) return empty('There are no predictions yet.');
  const { found, says } = await weakest(context, { ...data.now, release, metric: data.metric });
  const [row, ...others] = found.filter((one) => one.n >= FEW);
  if (row) {
    return [
      h('p', { class: 'worst' }, h('strong', null, name(row.slice)), h('br'), metricNumber(row.value, row.n)),
      h('p', { class: 'quiet' }, `The same of all of ${release}: `, h('span', { class: 'number' }, decimal(row.whole)), others.length > 0 && ['. Then ', others.slice(0, 2).map((one, at) => [at > 0 && ', ', name(one.slice), ` ${decimal(one.value)}`]), '.']),
    ];
  }
  if (says || found.length) return empty(says ?? `None of ${many(found.length, 'slice')} has ${FEW} labelled predictions from ${data.now.from} to ${data.now.to}.`);
  return declare(context, known, data.now);
}

async function driftCard(context, asks) {
  const periods = await asks.periods;
  if (!periods) return empty('There are no predictions yet.');
  const past = await usualReference(context, periods.now, REFERENCE);
  if (!past) return empty(`Only one day has predictions, so there is nothing to compare it with. Send those of another day.`);
  const window = past.to >= periods.now.from ? { from: addDays(past.to, 1), to: periods.now.to } : periods.now;
  const all = await rows(ofWorkspace(context.workspace, 'drift'), { ...window, reference: `${past.from}..${past.to}`, period: 'all', columns: 'release,column,n,n_reference,js_distance' }, { signal: context.signal });
  const ranked = all.filter((row) => row.release === null && typeof row.js_distance === 'number').sort((a, b) => b.js_distance - a.js_distance).slice(0, MOST_COLUMNS);
  if (!ranked.length) return empty('No column has enough predictions in both windows.');
  const [{ y: bound }] = NOTICEABLE.js_distance;
  const [top] = ranked;
  return [
    h('p', null, name(top.column), ` moved most, by ${decimal(top.js_distance)}: `, Math.min(top.n, top.n_reference) < FEW ? badge('none', `only ${many(Math.min(top.n, top.n_reference), 'value')} to compare`) : top.js_distance > bound ? badge('warn', 'look into it') : badge('none', `below ${bound}, as usual`)),
    barChart({ title: `Columns by ${MEASURES.js_distance}`, bars: ranked.map((row) => ({ name: row.column, value: row.js_distance })), x: MEASURES.js_distance }),
    h('p', { class: 'quiet' }, `${MEASURES.js_distance}; ${window.from} to ${window.to} against ${past.from} to ${past.to}.`),
  ];
}

/** What happened to releases and alerts, latest first; one definition of several releases is one entry. */
export function changesOf(entries, transitions) {
  const told = [...entries.filter((one) => one.what in PAST), ...transitions.map((one) => ({ at: one.at, what: one.what, about: one.rule, text: one.text, day: one.day }))].sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || (a.what === 'register') - (b.what === 'register'));
  const all = [];
  for (const one of told) {
    const same = all.find((other) => other.at === one.at && other.what === one.what && other.model === one.model && other.environment === one.environment && one.what === 'define');
    if (same) same.about.push(one.about);
    else all.push({ ...one, about: [one.about] });
  }
  return all;
}

async function changesCard({ workspace }, asks) {
  const [entries, transitions] = await Promise.all([asks.entries, asks.transitions]);
  const all = changesOf(entries, transitions);
  if (!all.length) return empty('Nothing was registered, promoted, defined or alerted yet.');
  const href = (one) => (one.day ? link('alerts', workspace, { rule: one.about[0] }) : one.what === 'define' ? link('catalog', workspace) : link('metrics', workspace, { release: one.about[0] }));
  return h('ol', { class: 'timeline' }, all.slice(0, MOST_CHANGES).map((one) => h('li', null,
    h('time', { class: 'quiet number', datetime: one.at }, `${minute(one.at)} UTC`), badge(TONES[one.what] ?? 'none', PAST[one.what]),
    h('span', null, h('a', { href: href(one) }, one.about.map((about, at) => [at > 0 && ', ', name(about)])), one.text ? h('span', { class: 'quiet' }, ' ', one.text) : h('span', { class: 'quiet' }, one.model && [' of ', name(one.model)], one.what !== 'define' && one.environment && [' in ', name(one.environment)], one.note && [': ', name(one.note)])))));
}

/** What to run for the first prediction and its label, with what is there already. */
function firstSteps(workspace, model, release, who) {
  const of = quoted(workspace ?? 'credit/prod');
  const place = placeOf(workspace ?? 'credit/prod');
  const [named, version] = [model?.name ?? 'default-risk', release ?? 'v1'];
  const positive = `"label":${JSON.stringify(model?.positive_label ?? 'default')}`;
  const [said, came] = { regression: ['"value":12.5', '"value":11'], multiclass: ['"label":"a"', '"label":"a"'] }[model?.task] ?? ['"score":0.81', positive];
  const day = today();
  const send = (kind, row) => `curl -s ${location.origin}${ofWorkspace(workspace ?? 'credit/prod', kind)}${who ? ' -H "Authorization: Bearer $ALMANAC_TOKEN"' : ''} -H ${quoted('Content-Type: application/x-ndjson')} --data-binary ${quoted(row)}`;
  const steps = [
    !workspace && ['Workspace', `almanac workspace create ${of} ${HERE}`],
    !model && ['Model', `almanac model create default-risk --task binary --positive-label default -w ${place}`],
    !release && ['Release', `almanac release create v1 --model ${quoted(named)} -w ${place}`],
    ['Prediction', send('predictions', `{"key":"first-1","predicted_at":"${day}T00:00:00Z","release":${JSON.stringify(version)},${said}}`)],
    ['What came true', send('outcomes', `{"key":"first-1","predicted_on":"${day}","observed_at":"${day}T00:00:00Z",${came}}`)],
    ['Python', `import almanac_ml as al\n\nw = al.connect("${location.origin}").workspace("${workspace ?? 'credit/prod'}")`],
  ];
  return [who && h('p', { class: 'quiet' }, 'Commands read your token from ', h('code', null, 'ALMANAC_TOKEN'), '.'), steps.filter(Boolean).map(([title, says]) => snippet(title, says))];
}

async function firstCard({ workspace, signal, who }, asks) {
  const [known, all] = await Promise.all([asks.models, releases(workspace, signal)]);
  return firstSteps(workspace, known[0], all.at(-1)?.name, who);
}

/** What the cards share, asked for at once. */
function asked(context) {
  const { workspace, chosen, signal } = context;
  const of = (what, parameters) => json(ofWorkspace(workspace, what), parameters, { signal });
  const settings = of('settings').catch((error) => {
    if ([403, 404].includes(error.status)) return null;
    throw error;
  });
  const asks = {
    periods: volume(workspace, signal).then((days) => lastDay(days) && periodsOf(days, chosen)),
    live: live(workspace, signal),
    rules: of('alert-rules'),
    transitions: of('transitions', { limit: 100 }).then((answer) => answer.transitions),
    entries: of('history', { limit: 50 }).then((answer) => answer.entries),
    models: models(workspace, signal),
    projector: projector(signal),
    settings,
  };
  asks.evaluated = evaluated(context, asks);
  // A card that waits for one of them does not listen to another that fails.
  for (const one of Object.values(asks)) one.catch(() => {});
  return asks;
}

/** The page. Its cards fill themselves; a page that is looked at again comes with all of them. */
export async function page(context) {
  const { workspace, go, moves, quietly } = context;
  const asks = asked(context);
  const periods = await asks.periods;
  moves(['evaluations', 'catalog', 'alerts'], EVERY);
  const to = (one) => link(one, workspace);
  const cards = [
    !periods && filling(context, 'Send the first prediction', null, firstCard(context, asks), true),
    filling(context, 'Live', to('catalog'), liveCard(context, asks)),
    filling(context, 'Health', to('alerts'), healthCard(context, asks)),
    periods && filling(context, 'Primary metric', to('metrics'), metricCard(context, asks), true),
    periods && filling(context, 'Weakest slice', link('slices', workspace, { from: periods.now.from, to: periods.now.to }), sliceCard(context, asks)),
    periods && filling(context, 'Drift', link('drift', workspace, { from: periods.now.from, to: periods.now.to }), driftCard(context, asks)),
    filling(context, 'What changed lately', to('catalog'), changesCard(context, asks), true),
  ].filter(Boolean);
  if (quietly) await Promise.all(cards.map((one) => one.done));
  return [
    periods && controls(field('Period', select(String(periods.length), PERIODS.map((length) => [String(length), `last ${length} days`]), (value) => go({ days: value })))),
    h('div', { class: 'cards' }, cards.map((one) => one.section)),
  ];
}

/** The page of the address without a workspace: it gives way to the one seen last, else to the first, and says how to begin where there is none. */
export async function startPage({ signal, who }) {
  const paths = (await json('/v1/workspaces', {}, { signal })).workspaces.map((one) => one.path).sort();
  const seen = localStorage.getItem('almanac-workspace');
  const path = paths.includes(seen) ? seen : paths[0];
  if (path) {
    location.replace(link('overview', path));
    return [h('h1', null, 'Almanac'), h('p', { class: 'loading' }, 'Loading')];
  }
  return [h('h1', null, 'There is no workspace yet'), h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', null, 'Send the first prediction')), h('div', { class: 'stacked' }, who && h('p', { class: 'quiet' }, 'Or there is none that you may see; an administrator gives you a role in one.'), firstSteps(null, null, null, who)))];
}

/** The page of help. */
export async function helpPage({ who }) {
  return [
    h('h1', null, 'Help'),
    h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', null, `Almanac ${VERSION}`)), h('ul', { class: 'lines' },
      h('li', null, 'This service: ', h('code', null, location.origin), '; ', h('a', { href: '/openapi.json' }, 'its HTTP API'), ', ', h('a', { href: '#/operate' }, 'how it fares'), '.'),
      h('li', null, 'Each card has its request as a command, in Python and with curl; each command explains itself with ', h('code', null, '--help'), '.'),
      h('li', null, 'In a chart the arrow keys move from point to point, + and − zoom, 0 shows all; Escape closes.'),
      h('li', null, 'The folder ', h('code', null, 'docs'), ' of the source has the guides, of this page ', h('code', null, 'docs/dashboard.md'), '.'))),
    h('section', { class: 'card' }, h('div', { class: 'card-head' }, h('h2', null, 'The first prediction')), h('div', { class: 'stacked' }, firstSteps(null, null, null, who))),
  ];
}
