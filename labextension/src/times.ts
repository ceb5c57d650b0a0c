/**
 * Formatting of times and dates in JupyterLab's display language.
 */

const known = new Map<string, TimeFormats>();

/** The formats in a display language of JupyterLab; this module is loaded with the first view that shows a time. */
export function timesIn(language: string): TimeFormats {
  const times = known.get(language) ?? new TimeFormats(language);
  known.set(language, times);
  return times;
}

/** Formats times, which are in seconds since the epoch, with 24 hours as in the sentences of the server. */
export class TimeFormats {
  /** @param language - the code of JupyterLab's display language, such as "de_DE" */
  constructor(
    language: string,
    preferred: readonly string[] = navigator.languages
  ) {
    const tag = language.replace(/_/g, '-');
    // The browser knows the region of "en"; what it cannot format is written as in English.
    const regional = preferred.filter(each => each.startsWith(`${tag}-`));
    const locales = [...regional, isLocale(tag) ? tag : 'en', 'en'];
    // Created once, because that takes as long as rendering a chart.
    const format = (options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
      new Intl.DateTimeFormat(locales, { ...options, hourCycle: 'h23' });
    this._time = format({ timeStyle: 'medium' });
    this._shortTime = format({ timeStyle: 'short' });
    this._date = format({ dateStyle: 'medium', timeStyle: 'medium' });
  }

  /** Format a time of day with seconds. */
  time(seconds: number): string {
    return this._time.format(seconds * 1000);
  }

  /** Format the times of day of ticks that are `step` seconds apart, without seconds if possible. */
  ticks(times: number[], step: number): string[] {
    const format = step < 60 ? this._time : this._shortTime;
    return times.map(time => format.format(time * 1000));
  }

  /** Format a range of times with the date: "Nov 22, 2026, 10:24:05 – 10:39:05". */
  range({ min, max }: { min: number; max: number }): string {
    return this._date.formatRange(min * 1000, max * 1000);
  }

  private readonly _time: Intl.DateTimeFormat;
  private readonly _shortTime: Intl.DateTimeFormat;
  private readonly _date: Intl.DateTimeFormat;
}

function isLocale(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length > 0;
  } catch {
    return false;
  }
}
