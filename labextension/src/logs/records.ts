/**
 * The records of a log.
 */

/** The levels of Python's `logging`, in order. */
export const LEVELS = [
  'DEBUG',
  'INFO',
  'WARNING',
  'ERROR',
  'CRITICAL'
] as const;

export type Level = (typeof LEVELS)[number];

/** A log message with its further lines, or lines that were printed; these have no level. */
export interface IRecord {
  level: Level | null;
  text: string;
}

/** Which records are shown. */
export interface IFilter {
  /** The lowest level; null for all records. */
  level: Level | null;
  /** A text that the record contains, in any case. */
  text: string;
}

/** Dask's format, `time - name - LEVEL - message`, and that of Python, `LEVEL:name:message`. */
const START =
  /^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - \S+ - )?(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: - |:\S)/;

/** Divide the text of a log into records. */
export function parseLog(log: string): IRecord[] {
  const records: IRecord[] = [];
  for (const line of log.trimEnd().split('\n')) {
    const level = (START.exec(line)?.[1] ?? null) as Level | null;
    const last = records.at(-1);
    if (last && level === null && isContinuation(line, last)) {
      last.text += `\n${line}`;
    } else if (line) {
      records.push({ level, text: line });
    }
  }
  return records;
}

/** Whether a line belongs to the record before it: warnings and errors have tracebacks and details. */
function isContinuation(line: string, { level }: IRecord): boolean {
  return level === null || level === 'DEBUG' || level === 'INFO'
    ? /^\s/.test(line)
    : true;
}

/** The records that a filter shows. */
export function filterRecords(
  records: IRecord[],
  { level, text }: IFilter
): IRecord[] {
  const least = level === null ? -1 : LEVELS.indexOf(level);
  const wanted = text.toLowerCase();
  return records.filter(
    record =>
      (level === null ||
        (record.level !== null && LEVELS.indexOf(record.level) >= least)) &&
      record.text.toLowerCase().includes(wanted)
  );
}
