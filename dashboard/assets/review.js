// Predictions to be judged by who is signed in, and what that one has judged lately.

import { json, ofWorkspace, post } from './api.js';
import { card, controls, field, select } from './common.js';
import { desk } from './desk.js';
import { name } from './dom.js';
import { table } from './table.js';
import { addDays, count, decimal, instant, many, today } from './words.js';

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

/** The page. */
export async function page({ workspace, chosen, signal, go }) {
  const path = ofWorkspace(workspace, 'reviews');
  const to = today();
  const [{ reviews }, mine] = await Promise.all([json(path, {}, { signal }), json(`${path}/answers`, { from: addDays(to, 1 - DAYS), to }, { signal })]);
  // Arenas have a page of their own.
  const all = reviews.filter((one) => one.policy !== 'pairs').map((one) => one.name);
  const review = all.find((one) => one === chosen.get('review'));
  const names = [['', all.length ? 'choose a review' : 'there are none yet'], ...all];
  const send = async (where, body) => (await post(`${path}/${where}`, body)).json();
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
