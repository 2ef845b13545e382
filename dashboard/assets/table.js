// Tables: numbers to the right, names as they are, and the first rows of many until all are asked for.

import { h, name } from './dom.js';
import { decimal } from './words.js';

const FIRST = 200;

/** A table of rows. A column is `{ key, text, number, shows }`; `shows` makes a cell of a row. */
export function table({ caption, columns, rows, empty = 'There is nothing to show.' }) {
  if (!rows.length) return h('p', { class: 'empty' }, empty);
  const cell = (row, column) => {
    const value = row[column.key];
    const shown = column.shows ? column.shows(row) : column.number ? decimal(value) : value === null || value === undefined ? '–' : name(String(value));
    const kind = column.number ? 'number' : typeof shown === 'string' && /^\d{4}-\d\d-\d\d/.test(shown) ? 'day' : null;
    return h('td', { class: kind }, shown);
  };
  const line = (row) => h('tr', null, columns.map((column) => cell(row, column)));
  const body = h('tbody', null, rows.slice(0, FIRST).map(line));
  const all = h('table', null,
    h('caption', { class: 'unseen' }, caption),
    h('thead', null, h('tr', null, columns.map((column) => h('th', { scope: 'col', class: column.number ? 'number' : null }, column.text)))),
    body);
  const place = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, all);
  if (rows.length <= FIRST) return place;
  const more = h('button', { type: 'button', class: 'more', onclick: () => {
    body.append(...rows.slice(FIRST).map(line));
    more.remove();
  } }, `Show all ${rows.length} rows`);
  return h('div', { class: 'long' }, place, more);
}
