// Elements, made of text alone: nothing that came from a server is ever read as HTML; and tables.

import { decimal } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') element[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** An HTML element with attributes (`onclick` is a listener) and children; text is text. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** The same in SVG. */
export const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

let numbers = 0;

/** An id that no other element of the page has. */
export const fresh = (prefix) => `${prefix}-${(numbers += 1)}`;

/** Marks that turn the order of letters. */
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;

/** A text with such marks written as the command line writes them, so that texts that differ look different. */
export const unturned = (text) => (typeof text === 'string' ? text.replace(TURNS, (mark) => `\\u{${mark.charCodeAt(0).toString(16)}}`) : text);

/** A name of a client's choosing, kept from changing the direction of the text around it, and of its own letters. */
export const name = (text) => h('bdi', { class: 'name', title: unturned(text) }, unturned(text));

/** Text in which what stands between backticks is code. */
export function prose(text) {
  const parts = typeof text === 'string' ? text.split('`') : [];
  return parts.length > 1 && parts.length % 2 ? parts.map((part, at) => (at % 2 ? h('code', null, part) : part)) : text;
}

/** Says something to those who hear the page instead of seeing it. */
export function announce(text) {
  const place = document.getElementById('said');
  if (place) place.textContent = text;
}

const FIRST = 200;

/** A table of rows. A column is `{ key, text, number, shows }`; `shows` makes a cell of a row. */
export function table({ caption, columns, rows, empty = 'There is nothing to show.' }) {
  if (!rows.length) return h('p', { class: 'empty' }, prose(empty));
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
