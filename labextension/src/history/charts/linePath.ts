/**
 * The paths of lines, decimated to the minimum and maximum of each pixel column.
 */
import uPlot from 'uplot';

/** Build the same line as uPlot in a third of the time, for hundreds of lines of 900 values. */
export const linePath: uPlot.Series.PathBuilder = (plot, number, from, to) => {
  const times = plot.data[0];
  const values = plot.data[number];
  const { left, top, width, height } = plot.bbox;
  const [startX, endX] = scaleRange(plot.scales.x);
  const [startY, endY] = scaleRange(plot.scales.y);
  const perSecond = width / (endX - startX);
  const perUnit = height / (endY - startY);
  const bottom = top + height;
  const stroke = new Path2D();
  let column = NaN;
  let first = 0;
  let last = 0;
  let isOpen = false;

  /** Draw the last pixel column. */
  const draw = (): void => {
    if (isOpen) {
      stroke.lineTo(column, first);
    } else {
      stroke.moveTo(column, first);
    }
    if (last !== first) {
      stroke.lineTo(column, last);
    }
    isOpen = true;
  };

  for (let index = from; index <= to; index++) {
    const value = values[index];
    if (typeof value !== 'number') {
      if (!Number.isNaN(column)) {
        draw();
      }
      column = NaN;
      isOpen = false;
      continue;
    }
    const x = Math.round(left + (times[index] - startX) * perSecond);
    const y = bottom - (value - startY) * perUnit;
    if (x !== column) {
      if (!Number.isNaN(column)) {
        draw();
      }
      column = x;
      first = last = y;
    } else if (first <= last) {
      first = Math.min(first, y);
      last = Math.max(last, y);
    } else {
      first = Math.max(first, y);
      last = Math.min(last, y);
    }
  }
  if (!Number.isNaN(column)) {
    draw();
  }
  return { stroke, fill: null };
};

function scaleRange({ min, max }: uPlot.Scale): [number, number] {
  return [min ?? 0, max ?? 1];
}
