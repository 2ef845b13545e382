// Numbers and days, as people read them.

const DAY = 86_400_000;
const whole = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: 1 });
/** The most places of a tick. */
const MOST_PLACES = 6;

/** A count. */
export const count = (value) => (value === null || value === undefined ? '–' : whole.format(value));

/** A count in little space. */
export const compact = (value) => (value === null || value === undefined ? '–' : short.format(value));

/** A metric, with four places, as the tables of the command line have it. */
export function decimal(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value) && Math.abs(value) >= 2) return whole.format(value);
  const most = Math.abs(value);
  if (most >= 1000) return whole.format(value);
  if (most !== 0 && most < 0.00005) return value.toExponential(1);
  return value.toFixed(4);
}

/** How many places a step needs: 0.25 has two, as 0.05 has. */
function placesOf(step) {
  let places = 0;
  for (let left = step; places < MOST_PLACES && Math.abs(left - Math.round(left)) > left * 1e-6; left *= 10) places += 1;
  return places;
}

/** What a tick of an axis says: with the places that its step needs, also in thousands and millions. */
export function tick(value, step) {
  const most = Math.abs(value);
  if (most < 10_000) return value.toFixed(placesOf(step));
  const unit = 1000 ** Math.min(4, Math.floor(Math.log10(most) / 3 + 1e-9));
  return new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: placesOf(step / unit) }).format(value);
}

/** The number of a day. */
export const dayNumber = (day) => Math.round(Date.parse(`${day}T00:00:00Z`) / DAY);

/** The day of a number. */
export const dayOf = (number) => new Date(number * DAY).toISOString().slice(0, 10);

/** The day so many days after `day`. */
export const addDays = (day, days) => dayOf(dayNumber(day) + days);

/** The first day of the month after that of `day`. */
export const nextMonth = (day) => new Date(Date.UTC(Number(day.slice(0, 4)), Number(day.slice(5, 7)), 1)).toISOString().slice(0, 10);

/** What heads a column of days, of which each is the first of a period. */
export const periodHead = (group) => ({ week: 'Week from', month: 'Month from' }[group] ?? 'Day');

/** Today, in UTC. */
export const today = () => new Date().toISOString().slice(0, 10);

/** An instant without what nobody reads. */
export const instant = (text) => (text ? text.replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC') : '–');

/** An instant to the minute, without its zone. */
export const minute = (text) => text.slice(0, 16).replace('T', ' ');

/** A share in percent. */
export const percent = (share) => `${(share * 100).toFixed(0)} %`;

/** How long something took, of its seconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  const all = Math.round(seconds);
  const [minutes, hours, days] = [60, 3_600, 86_400].map((one) => Math.floor(all / one));
  if (days) return `${count(days)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min ${all % 60} s` : `${all} s`;
}

/** The most letters of a text where many stand side by side. */
const MOST_LETTERS = 120;

/** Text that is cut where it is long. */
export const cut = (text, most = MOST_LETTERS) => (text.length > most ? `${text.slice(0, most)}…` : text);

/** A word with a number. */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;
