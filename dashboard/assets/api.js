// The HTTP API, as any other client would ask it.

const KEPT = 'almanac-token';
let token = sessionStorage.getItem(KEPT);

/** What a problem document says. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Whether a token was given. */
export const isSignedIn = () => token !== null;

/** Keeps a token for this tab until it is closed; null forgets it. */
export function keepToken(text) {
  token = text;
  if (text === null) sessionStorage.removeItem(KEPT);
  else sessionStorage.setItem(KEPT, text);
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

async function send(where, options = {}) {
  const headers = { ...options.headers };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(where, { ...options, headers, credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, 'The server does not answer.');
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let detail = text;
  try {
    detail = JSON.parse(text).detail ?? text;
  } catch {
    // It is no problem document; what it says is all there is.
  }
  throw new Problem(answer.status, detail || `The server answered ${answer.status}.`);
}

/** A JSON document. */
export const json = async (path, parameters, options) => (await send(url(path, parameters), options)).json();

/** Text. */
export const text = async (path, parameters, options) => (await send(url(path, parameters), options)).text();

/** The rows of a query. */
export async function rows(path, parameters, options) {
  const body = await text(path, { ...parameters, format: 'ndjson' }, options);
  return body.split('\n').filter((line) => line).map((line) => JSON.parse(line));
}

/** The rows of a SQL statement. */
export async function sql(workspace, statement, asOf, options) {
  const body = JSON.stringify({ sql: statement, format: 'ndjson', ...(asOf && { as_of: asOf }) });
  const headers = { 'Content-Type': 'application/json' };
  const answer = await send(ofWorkspace(workspace, 'sql'), { ...options, method: 'POST', headers, body });
  return (await answer.text()).split('\n').filter((line) => line).map((line) => JSON.parse(line));
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
