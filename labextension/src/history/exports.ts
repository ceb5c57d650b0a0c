/**
 * Export of the history: the metrics as CSV, the charts as PNG.
 */
import { ILineStyle } from './charts/lineStyles';
import { IRange } from './charts/plot';
import { themeValue } from './charts/theme';
import { IGroup } from './metrics';

const UNITS = { percent: '%', bytes: 'bytes', speed: 'bytes/s', rate: '1/s' };

/** Convert metrics to CSV: a row for each time, a column for each metric of each source, sizes in bytes. */
export function toCsv(
  groups: IGroup[],
  times: number[],
  range: IRange
): string {
  const columns = groups.flatMap(group =>
    group.metrics.flatMap(metric =>
      group.sources.map(({ name, details }, number) => ({
        header: `${name} (${details}): ${metric.title} [${UNITS[metric.unit]}]`,
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
  plots: { title: string; canvas: HTMLCanvasElement }[];
  lines: { name: string; style: ILineStyle }[];
}

const MARGIN = 12;
const LINE_HEIGHT = 20;

/** Draw the charts below each other, with a legend, in the colors of the theme. */
export function toPng({ plots, lines }: IPicture): Promise<Blob | null> {
  const scale = devicePixelRatio;
  const width = Math.max(...plots.map(({ canvas }) => canvas.width / scale));
  const heights = plots.map(
    ({ canvas }) => canvas.height / scale + LINE_HEIGHT + MARGIN
  );
  const height = heights.reduce((sum, each) => sum + each, 0);
  const canvas = document.createElement('canvas');
  canvas.width = (width + 2 * MARGIN) * scale;
  canvas.height = (height + (lines.length + 1) * LINE_HEIGHT) * scale;
  const context = canvas.getContext('2d');
  if (!context) {
    return Promise.resolve(null);
  }
  context.scale(scale, scale);
  context.fillStyle = themeValue('--jp-layout-color1');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.font = `12px ${themeValue('--jp-ui-font-family')}`;
  context.fillStyle = themeValue('--jp-ui-font-color1');
  let top = MARGIN;
  plots.forEach((plot, index) => {
    const size = [plot.canvas.width / scale, plot.canvas.height / scale];
    context.fillText(plot.title, MARGIN, top + 10);
    context.drawImage(plot.canvas, MARGIN, top + LINE_HEIGHT, size[0], size[1]);
    top += heights[index];
  });
  lines.forEach(({ name, style }) => {
    drawLegendEntry(context, name, style, top);
    top += LINE_HEIGHT;
  });
  return new Promise(resolve => canvas.toBlob(resolve));
}

function drawLegendEntry(
  context: CanvasRenderingContext2D,
  name: string,
  style: ILineStyle,
  top: number
): void {
  context.strokeStyle = themeValue(style.color);
  context.lineWidth = 2;
  context.setLineDash(style.dash);
  context.beginPath();
  context.moveTo(MARGIN, top + 6);
  context.lineTo(MARGIN + 24, top + 6);
  context.stroke();
  context.fillText(name, MARGIN + 32, top + 10);
}
