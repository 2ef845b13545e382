// What is shown, to take along: the same request on the command line, in Python and with curl, and the answer as CSV.

import { ofWorkspace, url } from './api.js';
import { announce, h } from './dom.js';

/** A word as a shell takes it. */
export const quoted = (text) => (/^[\w./:=,@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const python = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

const FLAGS = new Set(['interval', 'shadow', 'pairs']);

/** A query as it is asked by other means: `what`, such as evaluations, of `workspace` with `parameters`. */
export function ways(what, workspace, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const flag = ([key, value]) => (FLAGS.has(key) ? (value === 'true' ? `--${key}` : '') : `--${key} ${quoted(value)}`);
  const cli = ['almanac query', what, '-w', quoted(workspace), ...given.map(flag)].filter((part) => part).join(' ');
  const options = given.filter(([key]) => !['from', 'to', 'against', 'release'].includes(key) || (what !== 'head-to-head' && key === 'release'));
  const keyword = ([key, value]) => {
    const listed = ['columns', 'by'].includes(key);
    const written = FLAGS.has(key) ? 'True' : listed ? `[${value.split(',').map(python).join(', ')}]` : python(value);
    return `${key.replaceAll('-', '_')}=${written}`;
  };
  const first = what === 'head-to-head' ? [python(parameters.release), python(parameters.against)] : [];
  const days = [parameters.from, parameters.to].filter(Boolean).map(python);
  const call = `w.${what.replaceAll('-', '_')}(${[...first, ...days, ...options.map(keyword)].join(', ')})`;
  const origin = location.origin;
  const place = url(ofWorkspace(workspace, what), parameters);
  return {
    'Command line': cli,
    Python: `import almanac_ml as al\n\nw = al.connect(${python(origin)}).workspace(${python(workspace)})\nframe = ${call}`,
    curl: `curl ${quoted(`${origin}${place}`)}`,
  };
}

/** A statement of SQL by other means. */
export function waysOfSql(workspace, statement, asOf) {
  const origin = location.origin;
  const body = JSON.stringify({ sql: statement, ...(asOf && { as_of: asOf }) });
  return {
    'Command line': `almanac sql -w ${quoted(workspace)}${asOf ? ` --as-of ${asOf}` : ''} ${quoted(statement)}`,
    Python: `import almanac_ml as al\n\nw = al.connect(${python(origin)}).workspace(${python(workspace)})\nframe = w.sql(${python(statement)}${asOf ? `, as_of=${python(asOf)}` : ''})`,
    curl: `curl ${quoted(`${origin}${ofWorkspace(workspace, 'sql')}`)} -H 'Content-Type: application/json' -d ${quoted(body)}`,
  };
}

/** A plain GET by other means: the arguments of the command line, and the path. */
export const waysOfGet = (cli, path) => ({
  'Command line': cli,
  Python: `import json, urllib.request\n\nanswer = json.load(urllib.request.urlopen(${python(location.origin + path)}))`,
  curl: `curl ${quoted(location.origin + path)}`,
});

/** The trial of an alert rule by other means: on the command line, if the rule is one of the workspace. */
export function waysOfTrial(workspace, path, body) {
  const days = ['from', 'to'].filter((key) => body[key]).map((key) => ` --${key} ${body[key]}`).join('');
  const [place, asked] = [location.origin + path, JSON.stringify(body)];
  return {
    ...(!body.rules && { 'Command line': `almanac alert test ${quoted(body.name)} -w ${quoted(workspace)}${days}` }),
    Python: `import json, urllib.request\n\nasked = urllib.request.Request(${python(place)}, ${python(asked)}.encode(), {"Content-Type": "application/json"})\nanswer = json.load(urllib.request.urlopen(asked))`,
    curl: `curl ${quoted(place)} -H 'Content-Type: application/json' -d ${quoted(asked)}`,
  };
}

/** Saves text as a file. */
export function save(text, type, file) {
  const place = URL.createObjectURL(new Blob([text], { type }));
  const link = h('a', { href: place, download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(place), 10_000);
  announce(`${file} was saved`);
}

// As the format csv-spreadsheet: nothing steers a terminal, and no text is taken for a formula.
const cell = (value) => {
  if (value === null || value === undefined) return '';
  let text = String(value).replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g, (letter) => `\\u{${letter.charCodeAt(0).toString(16)}}`);
  if (typeof value === 'string' && /^[=+\-@\t\n\r＝＋－＠]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Rows as CSV. */
export const csv = (columns, rows) =>
  [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((row) => row.map(cell).join(',')).join('\n') + '\n';

const STYLES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'stroke-opacity', 'opacity', 'font-family', 'font-size', 'font-weight', 'text-anchor'];

/** A chart as an SVG file that looks as it looks here. */
export function svgFile(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((root) => [root, ...root.querySelectorAll('*')]);
  from.forEach((element, at) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) to[at].setAttribute(name, style.getPropertyValue(name));
  });
  for (const gone of copy.querySelectorAll('.cursor, .brush')) gone.remove();
  const box = svg.viewBox.baseVal;
  const ground = document.createElementNS(svg.namespaceURI, 'rect');
  for (const [name, value] of Object.entries({ width: box.width, height: box.height, fill: getComputedStyle(document.body).backgroundColor })) ground.setAttribute(name, value);
  copy.prepend(ground);
  copy.setAttribute('xmlns', svg.namespaceURI);
  copy.setAttribute('width', box.width);
  copy.setAttribute('height', box.height);
  return new XMLSerializer().serializeToString(copy);
}

/** A text to run, with what it is and a button that copies it. */
export function snippet(label, text) {
  const said = h('span', { class: 'quiet', role: 'status' });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = 'copied';
    } catch {
      said.textContent = 'The browser does not let pages copy; select the text.';
    }
  };
  return h('div', { class: 'way' },
    h('div', { class: 'way-head' }, h('strong', null, label), said, h('button', { type: 'button', onclick: copy, 'aria-label': `Copy as ${label}` }, 'Copy')),
    h('pre', { tabindex: 0, role: 'region', 'aria-label': label }, text));
}

/** A menu with the ways, as a disclosure. */
export const shareMenu = (all) => h('details', { class: 'share' }, h('summary', null, 'Copy as CLI, Python or curl'), h('div', { class: 'ways' }, Object.entries(all).map(([label, text]) => snippet(label, text))));
