// Addresses: the HTTP API, as any other client would ask it; and pages, which stand with all that is chosen behind the `#`, so that each can be shared and no server sees it.


/** With this header a request counts as one of these pages, so that the cookie of a session is taken for who asks. */
const OWN = { 'Almanac-Dashboard': 'yes' };

/** What a problem document says. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Where something of a workspace is, such as `live`. */
export const ofWorkspace = (path, rest = '') => {
  const parts = path.split('/').map(encodeURIComponent).join('/');
  return `/v1/workspaces/${parts}${rest && `/${rest}`}`;
};

/** A path with the parameters that have a value. */
export function url(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const query = given.map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(value).replaceAll('%2C', ',').replaceAll('%3A', ':')}`);
  return query.length ? `${path}?${query.join('&')}` : path;
}

/** Waits for something of the server, which may be away from the first byte on or in the middle of an answer. */
export async function answered(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, `The service at ${location.origin} does not answer.`);
  }
}

async function send(where, options = {}) {
  const headers = { ...options.headers, ...OWN };
  const answer = await answered(fetch(where, { ...options, headers, credentials: 'same-origin' }));
  if (answer.ok) return answer;
  const text = await answered(answer.text());
  let detail = text;
  try {
    detail = JSON.parse(text).detail ?? text;
  } catch {
    // It is no problem document; what it says is all there is.
  }
  throw new Problem(answer.status, detail || `The server answered ${answer.status}.`);
}

/** Opens a session with a token. Its cookie is kept by the browser, where no script can read it; the token is kept nowhere. */
export async function signIn(token) {
  try {
    await send('/v1/session', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  } catch (error) {
    const isThere = ![404, 405].includes(error.status);
    throw isThere ? error : new Problem(error.status, 'This process only reads, so nobody can sign in here: open the address of one that takes events as well.');
  }
}

/** Closes the session. */
export async function signOut() {
  try {
    await send('/v1/session', { method: 'DELETE' });
  } catch (error) {
    // Who is not signed in any more has what was wanted.
    if (error.status !== 401) throw error;
  }
}

/** A JSON document. */
export const json = async (path, parameters, options) => answered((await send(url(path, parameters), options)).json());

/** Text. */
export const text = async (path, parameters, options) => answered((await send(url(path, parameters), options)).text());

/** The bytes of an answer, as they come. */
export const stream = async (path, parameters, options) => (await send(url(path, parameters), options)).body;

const parsed = (body) => body.split('\n').filter((line) => line).map((line) => JSON.parse(line));

/** The rows of a query. */
export const rows = async (path, parameters, options) => parsed(await text(path, { ...parameters, format: 'ndjson' }, options));

const sent = (path, body, options) => send(path, { ...options, method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

/** The JSON answer to a JSON body. */
export const post = async (path, body, options) => answered((await sent(path, body, options)).json());

/** The rows of a SQL statement. */
export async function sql(workspace, statement, asOf, options) {
  const body = { sql: statement, format: 'ndjson', ...(asOf && { as_of: asOf }) };
  const answer = await sent(ofWorkspace(workspace, 'sql'), body, options);
  return parsed(await answered(answer.text()));
}

/** All pages of a list, up to `most` entries. */
export async function pages(path, parameters, name, most, options) {
  const all = [];
  let cursor;
  do {
    const page = await json(path, { ...parameters, limit: Math.min(most, 100), cursor }, options);
    all.push(...page[name]);
    cursor = page.next_cursor ?? page.next;
  } while (cursor && all.length < most);
  return all;
}

/** The parts of an address such as `#/w/flights/nyc/metrics?metric=auc`. */
export function read(hash = location.hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  let parts = [];
  try {
    parts = path.split('/').filter((part) => part).map(decodeURIComponent);
  } catch {
    // An address that was cut is that of no page.
  }
  const chosen = new URLSearchParams(query);
  if (parts[0] === 'w' && parts.length >= 3) {
    return { page: parts[3] ?? 'overview', workspace: `${parts[1]}/${parts[2]}`, chosen };
  }
  // Below a tracking URI of MLflow the address says of which workspace, and nothing behind the `#`.
  const start = new URLSearchParams(location.search).has('workspace') ? 'experiments' : 'start';
  return { page: parts[0] ?? start, workspace: null, chosen, more: parts.slice(1) };
}

/** The address of a page. */
export function link(page, workspace, chosen = {}) {
  const place = workspace === null ? page : `w/${workspace.split('/').map(encodeURIComponent).join('/')}/${page}`;
  const given = Object.entries(chosen).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const query = new URLSearchParams(given).toString();
  return `#/${place}${query && `?${query}`}`;
}

/** The same page with other choices. */
export function change(now, choices) {
  return link(now.page, now.workspace, { ...Object.fromEntries(now.chosen), ...choices });
}
