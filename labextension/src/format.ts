/**
 * Formatting of bytes, shares and messages.
 */
import { TranslationBundle } from '@jupyterlab/translation';

/** Binary or decimal units of memory. */
export type Units = 'GiB' | 'GB';

const UNITS = {
  GiB: { base: 1024, names: ['B', 'KiB', 'MiB', 'GiB', 'TiB'] },
  GB: { base: 1000, names: ['B', 'kB', 'MB', 'GB', 'TB'] }
};

/** The exponent of the unit in which a number of bytes is shown. */
function exponentOf(bytes: number, units: Units): number {
  const { base, names } = UNITS[units];
  const last = names.length - 1;
  return names.findIndex(
    (_, exponent) => exponent === last || bytes < base ** (exponent + 1)
  );
}

/** A number of bytes in the unit of an exponent, without the unit. */
function inUnit(bytes: number, exponent: number, units: Units): string {
  const size = bytes / UNITS[units].base ** exponent;
  return size.toFixed(size >= 10 || exponent === 0 || size === 0 ? 0 : 1);
}

/** Format bytes: "62 GiB", "1.5 GiB", "512 MiB". */
export function formatBytes(bytes: number, units: Units = 'GiB'): string {
  const exponent = exponentOf(bytes, units);
  return `${inUnit(bytes, exponent, units)} ${UNITS[units].names[exponent]}`;
}

/** Format used and total bytes: "41 of 140 GiB", or "8.0 GiB of 1.1 TiB". */
export function formatUsage(
  used: number,
  total: number,
  trans: TranslationBundle,
  units: Units = 'GiB'
): string {
  const exponent = exponentOf(total, units);
  return trans.__(
    '%1 of %2',
    // In the larger unit, some GiB of a TiB would be none.
    used && exponentOf(used, units) !== exponent
      ? formatBytes(used, units)
      : inUnit(used, exponent, units),
    formatBytes(total, units)
  );
}

/** Format a number of things: "4,093", as in the notebook. */
export function formatCount(count: number): string {
  return count.toLocaleString('en');
}

/** Format a duration that is only estimated: "40 s", "3 min", "1.5 h". */
export function formatDuration(
  seconds: number,
  trans: TranslationBundle
): string {
  return seconds < 90
    ? trans.__('%1 s', Math.max(1, Math.round(seconds)))
    : seconds < 5400
      ? trans.__('%1 min', Math.round(seconds / 60))
      : trans.__('%1 h', (seconds / 3600).toFixed(1));
}

/** A share of a total in percent, from 0 to 100. */
export function percentage(part: number, total: number): number {
  return total > 0 ? Math.min(100, Math.max(0, (100 * part) / total)) : 0;
}

/**
 * Items with commas between them; a line breaks between two items only.
 *
 * One text is drawn again several times as fast as an element for each item.
 */
export function joinItems(items: string[]): string {
  return items
    .filter(Boolean)
    .map(item => item.replace(/ /g, '\u00a0'))
    .join(', ');
}

/** The sum of the numbers that are not null. */
export function sum(numbers: (number | null | undefined)[]): number {
  return numbers.reduce<number>((total, each) => total + (each ?? 0), 0);
}

/** JupyterLab truncates the messages of notifications after so many characters. */
const LONGEST_MESSAGE = 140;

/** Names are not made shorter than this. */
const SHORTEST_NAME = 8;

/**
 * Format a message with names, the longest of which are shortened until the message is shown in full.
 *
 * @param names - the texts that can be shortened, such as the path of a notebook
 * @param format - formats the message with the names
 */
export function fitted(
  names: string[],
  format: (...names: string[]) => string
): string {
  let longest = Math.max(...names.map(name => name.length));
  let message = format(...names);
  while (message.length > LONGEST_MESSAGE && longest > SHORTEST_NAME) {
    longest -= 1;
    message = format(...names.map(name => shortened(name, longest)));
  }
  return message;
}

/** A text without its middle, if it is longer: a path keeps its first folder and its file. */
function shortened(text: string, longest: number): string {
  const start = Math.floor((longest - 1) / 3);
  const end = longest - 1 - start;
  return text.length > longest
    ? `${text.slice(0, start)}…${text.slice(-end)}`
    : text;
}
