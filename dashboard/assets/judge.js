// The page of a link: who has it judges one prediction, without an account. The link stands behind the `#`, which no server sees.

import { post } from './api.js';
import { desk } from './desk.js';
import { h } from './dom.js';

/** The page. */
export async function page() {
  const link = location.hash.split('?')[0].split('/')[2] ?? '';
  const send = async (words) => (await post('/v1/judgements', { link, ...words })).json();
  return [
    h('h1', null, 'Judge'),
    await desk({ title: 'Judge', empty: '', goes: false, take: async () => (await send({})).item, say: (item, words) => send(words) }),
  ];
}
