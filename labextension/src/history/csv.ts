/**
 * Export of the metrics of the history as CSV.
 */
import { IGroup } from './metrics';
import { IRange } from './range';
import { fullName } from './sources';

const UNITS = { percent: '%', bytes: 'bytes', speed: 'bytes/s', rate: '1/s' };

/** Convert metrics to CSV: a row for each time, a column for each metric of each source, sizes in bytes. */
export function toCsv(
  groups: IGroup[],
  times: number[],
  range: IRange
): string {
  const columns = groups.flatMap(group =>
    group.metrics.flatMap(metric =>
      group.sources.map((source, number) => ({
        header: `${fullName(source)}: ${metric.title} [${UNITS[metric.unit]}]`,
        series: metric.series[number]
      }))
    )
  );
  const rows = [['time', ...columns.map(column => quoted(column.header))]];
  times.forEach((time, index) => {
    const values = columns.map(column => column.series[index]);
    const isInside = time >= range.min && time <= range.max;
    if (isInside && values.some(value => value !== null)) {
      const when = new Date(time * 1000).toISOString();
      rows.push([when, ...values.map(value => (value ?? '').toString())]);
    }
  });
  return rows.map(row => `${row.join(',')}\r\n`).join('');
}

function quoted(text: string): string {
  return `"${text.replace(/"/g, '""')}"`;
}
