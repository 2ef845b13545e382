// Pairs of releases to be compared by who is signed in, and how the releases rank by all votes.

import { json, ofWorkspace, post } from './api.js';
import { intervalChart } from './chart.js';
import { badge, card, controls, field, select } from './common.js';
import { desk } from './desk.js';
import { h, name } from './dom.js';
import { waysOfGet } from './share.js';
import { table } from './table.js';
import { count, many } from './words.js';

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
    chart: rows.length ? intervalChart({ title: 'Strength with its interval', rows }) : null,
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

/** The page. */
export async function page({ workspace, chosen, signal, go }) {
  const path = ofWorkspace(workspace, 'reviews');
  const { reviews } = await json(path, {}, { signal });
  const all = reviews.filter((one) => one.policy === 'pairs').map((one) => one.name);
  const arena = all.find((one) => one === chosen.get('arena'));
  const names = [['', all.length ? 'choose an arena' : 'there are none yet'], ...all];
  const choice = controls(field('Arena', select(arena ?? '', names, (value) => go({ arena: value || null }))));
  if (!arena) return [choice, h('p', { class: 'quiet' }, 'An arena shows what two releases predicted of the same, without their names. ', name('almanac review create'), ' makes one.')];
  const rank = (more) => json(`${path}/ranking`, { review: arena }, more);
  const send = async (where, body) => (await post(`${path}/${where}`, body)).json();
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
