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

/** Draw the charts as they are placed on the page, with title and legend, in the colors of the theme. */
export function toPng({ title, plots, lines }: IPicture): Promise<Blob | null> {
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d');
  if (!context) {
    return Promise.resolve(null);
  }
  const rows = rowsOf(plots);
  const boxes = rows.flat().map(({ box }) => box);
  const left = Math.min(...boxes.map(box => box.left));
  const font = `12px ${themeValue('--jp-ui-font-family')}`;
  context.font = `bold ${font}`;
  const titleWidth = context.measureText(title).width;
  context.font = font;
  // No text is cut off, however narrow the charts are.
  const width = Math.ceil(
    Math.max(
      titleWidth,
      ...rows
        .flat()
        .map(
          ({ plot, box }) =>
            box.left -
            left +
            Math.max(box.width, context.measureText(plot.title).width)
        ),
      ...lines.map(({ name }) => KEY_WIDTH + context.measureText(name).width)
    )
  );
  const entries = legendEntries(context, lines, width);
  const heights = rows.map(
    row =>
      LINE_HEIGHT +
      Math.ceil(Math.max(...row.map(({ box }) => box.height))) +
      MARGIN
  );
  const height =
    LINE_HEIGHT +
    heights.reduce((total, each) => total + each, 0) +
    ((entries.at(-1)?.row ?? 0) + 1) * LINE_HEIGHT;

  // Setting the size resets the context.
  const scale = devicePixelRatio;
  canvas.width = (width + 2 * MARGIN) * scale;
  canvas.height = (height + 2 * MARGIN) * scale;
  context.scale(scale, scale);
  context.fillStyle = themeValue('--jp-layout-color1');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.translate(MARGIN, MARGIN);
  context.fillStyle = themeValue('--jp-ui-font-color1');
  context.textBaseline = 'top';
  context.font = `bold ${font}`;
  context.fillText(title, 0, 0);
  context.font = font;
  let top = LINE_HEIGHT;
  rows.forEach((row, index) => {
    for (const { plot, box } of row) {
      // At whole pixels, and in its own size: text that is scaled is blurred.
      const at = Math.round(box.left - left);
      context.fillText(plot.title, at, top);
      const { width, height } = plot.canvas;
      context.drawImage(
        plot.canvas,
        at,
        top + LINE_HEIGHT,
        width / scale,
        height / scale
      );
    }
    top += heights[index];
  });
  for (const { name, style, x, row } of entries) {
    drawLegendEntry(context, name, style, x, top + row * LINE_HEIGHT);
  }
  return new Promise(resolve => canvas.toBlob(resolve));
}

/** A chart and its place on the page. */
interface IPlaced {
  plot: IPicture['plots'][number];
  box: DOMRect;
}

/** The charts that are beside each other on the page, from the top. */
function rowsOf(plots: IPicture['plots']): IPlaced[][] {
  const rows = new Map<number, IPlaced[]>();
  for (const plot of plots) {
    const box = plot.canvas.getBoundingClientRect();
    const top = Math.round(box.top);
    rows.set(top, [...(rows.get(top) ?? []), { plot, box }]);
  }
  return [...rows].sort(([a], [b]) => a - b).map(([, row]) => row);
}

/** The lines with the places of their names, in as many rows as needed. */
function legendEntries(
  context: CanvasRenderingContext2D,
  lines: IPicture['lines'],
  width: number
): (IPicture['lines'][number] & { x: number; row: number })[] {
  let x = 0;
  let row = 0;
  return lines.map(line => {
    const size = KEY_WIDTH + context.measureText(line.name).width;
    if (x > 0 && x + size > width) {
      x = 0;
      row += 1;
    }
    const entry = { ...line, x, row };
    x += size + 2 * MARGIN;
    return entry;
  });
}

function drawLegendEntry(
  context: CanvasRenderingContext2D,
  name: string,
  style: ILineStyle,
  left: number,
  top: number
): void {
  context.strokeStyle = themeValue(style.color);
  context.lineWidth = 2;
  context.setLineDash(style.dash);
  context.beginPath();
  context.moveTo(left, top + 6);
  context.lineTo(left + KEY_WIDTH - 8, top + 6);
  context.stroke();
  context.fillText(name, left + KEY_WIDTH, top);
}
