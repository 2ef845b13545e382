// What people say of predictions: the desk at which one after the other is judged, a review of single ones, an arena of pairs, and the page of a guest's link.

import { Problem, json, ofWorkspace, post } from './api.js';
import { intervalChart } from './chart.js';
import { badge, card, controls, field, select } from './common.js';
import { announce, h, name, prose, table } from './dom.js';
import { waysOfGet } from './share.js';
import { addDays, count, decimal, instant, many, today } from './words.js';

/** A text of a client's choosing, whole and as it is. */
const whole = (text) => h('bdi', { class: 'whole' }, text);

/** The tag whose text, where it is an address, is a link to what is to be looked at. */
const PAYLOAD = 'payload';

const lines = (all) => h('dl', { class: 'asked' }, all.map(([term, what]) => h('div', null, h('dt', null, term), h('dd', null, what))));

/** A tag: an address in the one called `payload` is a link, which tells its target nothing of this page. */
function tagText(tag, text) {
  if (tag !== PAYLOAD || !/^https?:\/\//i.test(text)) return whole(text);
  return h('a', { class: 'whole', href: text, target: '_blank', rel: 'noopener noreferrer' }, text);
}

const ofTags = (tags) => Object.entries(tags).sort().map(([tag, text]) => [whole(tag), tagText(tag, text)]);

const SIDES = ['Left', 'Right'];

/** The two sides of a pair, without names. */
const sides = (both) => h('div', { class: 'sides' }, both.map((side, at) => h('section', { 'aria-label': SIDES[at] }, h('h3', null, SIDES[at]), lines([
  ...[['Label', side.label && whole(side.label)], ['Score', side.score], ['Number', side.value]].filter(([, value]) => value !== null).map(([term, value]) => [term, typeof value === 'number' ? decimal(value) : value]),
  ...ofTags(side.tags),
]))));

/** What is shown of an item. */
const asked = (item) => [
  lines([['Key', whole(item.key)], ['Predicted', instant(item.predicted_at)], ...ofTags(item.tags)]),
  item.sides && sides(item.sides),
];

/** How keys are written that are no letters. */
const KEYS = { arrowleft: '←', arrowright: '→', arrowdown: '↓' };

/** A button, and the key by which it is pressed while the desk has the focus. */
const button = (key, text, onclick, kind) => h('button', { type: 'button', class: kind, 'data-key': key, 'aria-keyshortcuts': key, onclick }, key && h('kbd', { 'aria-hidden': 'true' }, KEYS[key] ?? key.toUpperCase()), text);

const VOTES = [['arrowleft', 'Left is better', 'left'], ['arrowdown', 'Neither', 'tie'], ['arrowright', 'Right is better', 'right']];

/** The labels of the review to choose from; where it names none, fields for a label and for a number; of a pair which side is better. */
function answers(item, say) {
  if (item.sides) return VOTES.map(([key, text, vote]) => button(key, text, () => say({ vote })));
  if (item.labels.length) return item.labels.map((label, at) => button(at < 9 ? String(at + 1) : null, whole(label), () => say({ label })));
  const label = h('input', { type: 'text', autocomplete: 'off' });
  const value = h('input', { type: 'number', step: 'any' });
  const submit = (event) => {
    event.preventDefault();
    if (label.value) say({ label: label.value });
    else if (value.value) say({ value: Number(value.value) });
  };
  return h('form', { class: 'controls', 'aria-label': 'Answer', onsubmit: submit }, field('Label', label), field('or number', value), h('button', { type: 'submit' }, 'Answer'));
}

/** What releases had said, which is told after the answer; of a pair, who was on which side. */
const said = (item, all) => table({ caption: 'What releases had said', rows: all, empty: 'No release had said anything.', columns: [
  ...(item.sides ? [{ key: 'side', text: 'Side', shows: (row) => SIDES[all.indexOf(row)] }] : []),
  { key: 'release', text: 'Release' },
  { key: 'label', text: 'Label' },
  { key: 'score', text: 'Score', number: true, shows: (row) => decimal(row.score) },
  { key: 'value', text: 'Number', number: true, shows: (row) => decimal(row.value) },
] });

/** The desk. `take` gives the next item or nothing, `say` sends what is said of one; `goes` says whether another one may come. */
async function desk({ title, empty, take, say, goes }) {
  const region = h('section', { class: 'card desk', tabindex: -1, 'aria-label': title });
  region.addEventListener('keydown', (event) => {
    if (event.target.closest('input, textarea, select') || event.ctrlKey || event.metaKey || event.altKey) return;
    const pressed = [...region.querySelectorAll('button')].find((one) => one.dataset.key === event.key.toLowerCase());
    if (!pressed) return;
    event.preventDefault();
    pressed.click();
  });
  const put = (heading, ...parts) => {
    region.replaceChildren(h('h2', null, heading), ...parts.flat(Infinity).filter((one) => one));
    announce(heading);
    if (region.isConnected) region.focus();
  };
  const failed = (error) => {
    if (!(error instanceof Problem)) console.error(error);
    put('This cannot be done', h('p', { class: 'notice', role: 'alert' }, prose(error.message)), goes && button('n', 'Next', () => next()));
  };
  const answer = async (item, words) => {
    try {
      const answered = await say(item, words);
      const again = goes && button('n', 'Next', () => next(), 'first');
      if (answered.state === 'skipped') put('Given back', h('p', null, 'You are not shown it again.'), again);
      else put('Answered', asked(item), said(item, answered.said), again);
    } catch (error) {
      failed(error);
    }
  };
  const draw = (item) => {
    if (!item) return put(title, h('p', { class: 'empty' }, empty));
    const send = (words) => answer(item, words);
    return put(item.sides ? 'Which is better?' : 'What is it?', asked(item), h('div', { class: 'answers', role: 'group', 'aria-label': 'Answers' }, answers(item, send), button('s', 'Skip', () => send({ skip: true }))),
      h('p', { class: 'quiet' }, `It is yours until ${instant(item.until)}. While this card has the focus, the keys on the buttons press them.`));
  };
  const next = async () => {
    try {
      draw(await take());
    } catch (error) {
      failed(error);
    }
  };
  await next();
  requestAnimationFrame(() => region.isConnected && region.focus());
  return region;
}

const DAYS = 7;

/** What was answered in the latest days. */
function lately({ answers, releases, reviewer, from, to }, workspace) {
  return card({
    title: 'Your answers',
    note: [name(reviewer), ` gave ${many(answers.length, 'answer')} from ${from} to ${to}.`],
    side: [
      table({ caption: 'How often releases had said the same', rows: releases, empty: 'There are no results yet.', columns: [
        { key: 'release', text: 'Release' },
        ...['answers', 'agree', 'differ'].map((key) => ({ key, text: key[0].toUpperCase() + key.slice(1), number: true, shows: (row) => count(row[key]) })),
      ] }),
      table({ caption: 'Answers', rows: [...answers].reverse(), empty: 'There are no answers yet.', columns: [
        { key: 'answered_at', text: 'At', shows: (row) => instant(row.answered_at) },
        { key: 'key', text: 'Key' },
        { key: 'label', text: 'Label' },
        { key: 'value', text: 'Number', number: true, shows: (row) => decimal(row.value) },
        { key: 'vote', text: 'Vote' },
      ] }),
    ],
    data: { columns: ['answered_at', 'review_id', 'item', 'key', 'predicted_at', 'label', 'value', 'vote'], rows: answers },
    file: `${workspace.replace('/', '-')}-answers`,
  });
}

/** The page of reviews. */
export async function reviewPage({ workspace, chosen, signal, go }) {
  const path = ofWorkspace(workspace, 'reviews');
  const to = today();
  const [{ reviews }, mine] = await Promise.all([json(path, {}, { signal }), json(`${path}/answers`, { from: addDays(to, 1 - DAYS), to }, { signal })]);
  // Arenas have a page of their own.
  const all = reviews.filter((one) => one.policy !== 'pairs').map((one) => one.name);
  const review = all.find((one) => one === chosen.get('review'));
  const names = [['', all.length ? 'choose a review' : 'there are none yet'], ...all];
  const send = (where, body) => post(`${path}/${where}`, body);
  return [
    controls(field('Review', select(review ?? '', names, (value) => go({ review: value || null })))),
    review && await desk({
      title: 'Judge',
      empty: 'Nothing of this review is left for you.',
      goes: true,
      take: async () => (await send('next', { review })).item,
      say: (item, words) => send('answers', { review, item: item.item, ...words }),
    }),
    lately(mine, workspace),
  ];
}

const COUNTS = ['wins', 'losses', 'ties'].map((key) => ({ key, text: key[0].toUpperCase() + key.slice(1), number: true, shows: (row) => count(row[key]) }));

/** How the releases rank. */
function standings(ranking, workspace, path) {
  const voted = ranking.releases.filter((row) => row.strength !== null);
  const rows = voted.map((row) => ({ name: row.release, value: row.strength, low: row.lower, high: row.upper }));
  const note = voted.length && !ranking.connected
    ? 'Not every release won against every other one yet, directly or over others: how far some are apart rests on the prior alone.'
    : 'Strength is the logarithm of the odds against the mean of all, with its 95 percent interval. A tie is half a win of each.';
  return card({
    title: 'Ranking',
    note: `${many(ranking.votes, 'vote')}. ${note}`,
    chart: rows.length ? intervalChart({ title: 'Strength with its interval', x: 'strength, log odds', rows }) : null,
    side: table({ caption: 'Ranking', rows: ranking.releases, empty: 'There are no pairs yet.', columns: [
      { key: 'release', text: 'Release' },
      ...['strength', 'lower', 'upper'].map((key) => ({ key, text: key[0].toUpperCase() + key.slice(1), number: true })),
      ...COUNTS,
    ] }),
    data: { columns: ['release', 'strength', 'lower', 'upper', 'wins', 'losses', 'ties'], rows: ranking.releases },
    file: `${workspace.replace('/', '-')}-${ranking.review}`,
    ways: waysOfGet(`almanac review ranking ${ranking.review} -w ${workspace}`, `${path}/ranking?review=${ranking.review}`),
  });
}

/** The pairs, and what came of them. */
const pairs = (ranking) => card({
  title: 'Pairs',
  side: table({ caption: 'Pairs', rows: ranking.pairs, empty: 'There are no pairs yet.', columns: [
    { key: 'release', text: 'Release' },
    { key: 'against', text: 'Against' },
    ...COUNTS,
    { key: 'items', text: 'Items', number: true, shows: (row) => count(row.items) },
    { key: 'live', text: 'Served', shows: (row) => (row.live ? badge('good', 'yes') : badge('none', 'not live')) },
  ] }),
});

/** The page of arenas. */
export async function arenaPage({ workspace, chosen, signal, go }) {
  const path = ofWorkspace(workspace, 'reviews');
  const { reviews } = await json(path, {}, { signal });
  const all = reviews.filter((one) => one.policy === 'pairs').map((one) => one.name);
  const arena = all.find((one) => one === chosen.get('arena'));
  const names = [['', all.length ? 'choose an arena' : 'there are none yet'], ...all];
  const choice = controls(field('Arena', select(arena ?? '', names, (value) => go({ arena: value || null }))));
  if (!arena) return [choice, h('p', { class: 'quiet' }, 'An arena shows what two releases predicted of the same, without their names. ', prose(all.length ? 'Choose one above.' : `\`almanac review create duel --policy pairs -w ${workspace}\` makes one.`))];
  const rank = (more) => json(`${path}/ranking`, { review: arena }, more);
  const send = (where, body) => post(`${path}/${where}`, body);
  const place = h('div', null);
  const draw = (ranking) => place.replaceChildren(standings(ranking, workspace, path), pairs(ranking));
  draw(await rank({ signal }));
  return [
    choice,
    await desk({
      title: 'Compare',
      empty: 'Nothing of this arena is left for you.',
      goes: true,
      take: async () => (await send('next', { review: arena })).item,
      say: async (item, words) => {
        const answered = await send('answers', { review: arena, item: item.item, ...words });
        // The vote counts, whether or not the ranking can be shown again now.
        rank().then(draw, (error) => console.error(error));
        return answered;
      },
    }),
    place,
  ];
}

/** The page of a link: who has it judges one prediction, without an account. The link stands behind the `#`, which no server sees. */
export async function judgePage() {
  const link = location.hash.split('?')[0].split('/')[2] ?? '';
  const send = (words) => post('/v1/judgements', { link, ...words });
  return [
    h('h1', null, 'Judge'),
    await desk({ title: 'Judge', empty: '', goes: false, take: async () => (await send({})).item, say: (item, words) => send(words) }),
  ];
}
