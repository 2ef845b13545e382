// One prediction to be judged after the other, or one pair of an arena: what is shown of it, and its answers, by pointer or by keyboard.

import { Problem } from './api.js';
import { field } from './common.js';
import { announce, h } from './dom.js';
import { table } from './table.js';
import { decimal, instant } from './words.js';

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
export async function desk({ title, empty, take, say, goes }) {
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
    put('This cannot be done', h('p', { class: 'notice', role: 'alert' }, error.message), goes && button('n', 'Next', () => next()));
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
