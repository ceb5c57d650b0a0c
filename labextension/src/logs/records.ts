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

/** A log message or a traceback with its further lines, or lines that were printed; these have no level. */
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

/** The first line of a traceback. */
const TRACEBACK = 'Traceback (most recent call last):';

/** Between the tracebacks of an exception and of its cause. */
const CHAIN =
  /^(?:During handling of the above exception|The above exception was the direct cause)/;

/** A detail below a message, such as Dask's `Key:       x-1`. */
const DETAIL = /^\w[\w ]*:/;

/** Colors of a terminal, and movements of its cursor. */
// eslint-disable-next-line no-control-regex
const ESCAPE_SEQUENCE = /\x1b\[[\d;?]*[A-Za-z]/g;

/** Divide the text of a log into records. */
export function parseLog(log: string): IRecord[] {
  const records: IRecord[] = [];
  for (const line of log.replace(ESCAPE_SEQUENCE, '').trimEnd().split('\n')) {
    const level = (START.exec(line)?.[1] ?? null) as Level | null;
    const last = records.at(-1);
    if (last && level === null && isContinuation(line, last)) {
      last.text += `\n${line}`;
    } else if (line) {
      records.push({ level: level ?? levelOfPrinted(line), text: line });
    }
  }
  return records;
}

/** Whether a line belongs to the record before it: warnings and errors have details and tracebacks. */
function isContinuation(line: string, { level, text }: IRecord): boolean {
  if (/^\s/.test(line)) {
    return true;
  }
  if (level === null || level === 'DEBUG' || level === 'INFO') {
    return false;
  }
  if (line === '' || CHAIN.test(line) || isTaskFailure(text)) {
    return true;
  }
  const lines = text.trimEnd().split('\n');
  const end = lines[lines.length - 1];
  if (line === TRACEBACK) {
    return !isTraced(lines) || CHAIN.test(end);
  }
  // A traceback ends with the first line that is not indented, the exception.
  return isTraced(lines)
    ? /^\s/.test(end) || end === TRACEBACK
    : DETAIL.test(line);
}

/** Whether the details of a failed task are not complete; its arguments may have any lines. */
function isTaskFailure(text: string): boolean {
  return / - Compute Failed\n/.test(`${text}\n`) && !/^Traceback: /m.test(text);
}

/** Whether a record has a traceback, or is the rest of one whose first lines the log does not have. */
function isTraced(lines: string[]): boolean {
  return (
    lines.some(line => line.startsWith('Traceback')) || /^\s/.test(lines[0])
  );
}

/** A traceback that was printed is an error, also if the log begins within it. */
function levelOfPrinted(line: string): Level | null {
  return line === TRACEBACK || /^\s+File ".+", line \d+/.test(line)
    ? 'ERROR'
    : null;
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
