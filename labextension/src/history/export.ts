/**
 * Export of the metrics of the history as CSV, and of its charts as PNG.
 */

import { ILineStyle, themeValue, IRange } from './plot';
import { fullName, IGroup } from './metrics';

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

/** The content of an exported image. */
export interface IPicture {
  title: string;
  plots: { title: string; canvas: HTMLCanvasElement }[];
  lines: { name: string; style: ILineStyle }[];
}

const MARGIN = 12;
const LINE_HEIGHT = 20;
/** The width of the line before its name, with the space between them. */
const KEY_WIDTH = 32;

/** Draw the charts where they are on the page, with the title above and the legend below, in the colors of the theme. */
export function toPng({ title, plots, lines }: IPicture): Promise<Blob | null> {
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d');
  if (!context) {
    return Promise.resolve(null);
  }
  const boxes = plots.map(plot => plot.canvas.getBoundingClientRect());
  const left = Math.min(...boxes.map(box => box.left));
  // With room for the title of the image and that of the first charts.
  const top = Math.min(...boxes.map(box => box.top)) - 2 * LINE_HEIGHT;
  const font = `12px ${themeValue('--jp-ui-font-family')}`;
  const widthOf = (text: string): number => context.measureText(text).width;
  context.font = `bold ${font}`;
  // No text is cut off, however narrow the charts are.
  const width = Math.max(
    widthOf(title),
    ...boxes.map(
      (box, index) =>
        box.left - left + Math.max(box.width, widthOf(plots[index].title))
    ),
    ...lines.map(({ name }) => KEY_WIDTH + widthOf(name))
  );
  const end = Math.max(...boxes.map(box => box.bottom)) - top + MARGIN;
  // Setting the size resets the context.
  const scale = devicePixelRatio;
  canvas.width = Math.ceil(width + 2 * MARGIN) * scale;
  canvas.height =
    Math.ceil(end + lines.length * LINE_HEIGHT + 2 * MARGIN) * scale;
  context.scale(scale, scale);
  context.fillStyle = themeValue('--jp-layout-color1');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.translate(MARGIN, MARGIN);
  context.fillStyle = themeValue('--jp-ui-font-color1');
  context.textBaseline = 'top';
  context.font = `bold ${font}`;
  context.fillText(title, 0, 0);
  context.font = font;
  plots.forEach((plot, index) => {
    // At whole pixels, and in its own size: text that is scaled is blurred.
    const x = Math.round(boxes[index].left - left);
    const y = Math.round(boxes[index].top - top);
    context.fillText(plot.title, x, y - LINE_HEIGHT);
    const { width, height } = plot.canvas;
    context.drawImage(plot.canvas, x, y, width / scale, height / scale);
  });
  context.lineWidth = 2;
  lines.forEach(({ name, style }, index) => {
    const y = end + index * LINE_HEIGHT;
    context.strokeStyle = themeValue(style.color);
    context.setLineDash(style.dash);
    context.beginPath();
    context.moveTo(0, y + 6);
    context.lineTo(KEY_WIDTH - 8, y + 6);
    context.stroke();
    context.fillText(name, KEY_WIDTH, y);
  });
  return new Promise(resolve => canvas.toBlob(resolve));
}
