// What moves in the workspace that is shown, as the server tells it: server-sent events, read by `fetch`, which sends the header of
// these pages along. Only a page that is in sight listens, since a browser has few connections to a host.

import { ofWorkspace, stream } from './api.js';

/** How long to wait before a stream that failed is asked for again, in milliseconds. */
const AGAIN = 5_000;

/** How often a page is shown again at most, in milliseconds, however much moves. */
const LEAST = 3_000;

/** How often a page is asked for again at least, in milliseconds, where the server says what moves: it may not hear of everything. */
const RARELY = 60_000;

/**
 * In how many milliseconds to show a page again that began to be shown at `begunAt`: soon, if it `isStale`; else after `every`, or
 * more rarely if what moves `isHeard`. `null`: not at all.
 */
export function rest({ begunAt, isStale, every, isHeard }, now) {
  if (!isStale && every === null) return null;
  const after = isStale ? LEAST : isHeard ? Math.max(every, RARELY) : every;
  return Math.max(0, begunAt + after - now);
}

/** An event of its lines. */
function read(text) {
  const lines = text.split('\n').map((line) => line.split(': '));
  const of = (field) => lines.filter(([name]) => name === field).map(([, ...rest]) => rest.join(': ')).join('');
  return { name: of('event'), data: of('data') ? JSON.parse(of('data')) : null };
}

/** Reads one stream to its end. */
async function follow(workspace, signal, take) {
  const reader = (await stream(ofWorkspace(workspace, 'news'), {}, { signal })).getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split('\n\n');
    rest = parts.pop();
    parts.filter((part) => part && !part.startsWith(':')).map(read).forEach(take);
  }
}

/**
 * Listens to a workspace until it is stopped. `heard` gets the topics that moved; `hears` is told whether what other processes write is heard:
 * only where the server reads the change feed, and not while there is no stream.
 */
export function listen(workspace, { heard, hears }) {
  const all = new Set();
  let isOver = false;
  const begin = (before) => {
    const own = new AbortController();
    all.add(own);
    let isRenewed = false;
    const take = ({ name, data }) => {
      if (isOver) return;
      if (name === 'hello') {
        before?.abort();
        hears(data.reads_feed);
      } else if (name === 'news') heard(new Set(data.topics));
      else if (name === 'renew') {
        isRenewed = true;
        begin(own);
      }
    };
    follow(workspace, own.signal, take).catch(() => {}).then(() => {
      all.delete(own);
      if (isOver || isRenewed || own.signal.aborted) return;
      hears(false);
      setTimeout(() => isOver || begin(null), AGAIN);
    });
  };
  begin(null);
  return () => {
    isOver = true;
    all.forEach((one) => one.abort());
  };
}
