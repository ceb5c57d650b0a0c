import React from 'react';

import { HISTORY } from '../model/connection';

interface ISparklineProps {
  /** Of each metric, in seconds. */
  times: number[];
  /** From 0 to `top`; null where there is none. */
  metrics: (number | null)[];
  top: number;
  kind: 'busy' | 'memory';
}

const HEIGHT = 20;
/** Without a metric for so many seconds the line is broken. */
const GAP = 4;

/** The last minute as a line; what it says is said by the text beside it. */
export function Sparkline({
  times,
  metrics,
  top,
  kind
}: ISparklineProps): JSX.Element {
  const pieces = inPieces(times, metrics, top);
  return (
    <svg
      className="jp-GpuDask-sparkline"
      data-kind={kind}
      viewBox={`0 0 ${HISTORY} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      {pieces.map((piece, index) => {
        const line = lineThrough(piece);
        return (
          <React.Fragment key={index}>
            <path className="jp-GpuDask-area" d={line + downFrom(piece)} />
            <path className="jp-GpuDask-line" d={line} />
          </React.Fragment>
        );
      })}
    </svg>
  );
}

type Point = readonly [x: number, y: number];

/** The points in the picture, in pieces without a gap. */
export function inPieces(
  times: number[],
  metrics: (number | null)[],
  top: number
): Point[][] {
  const newest = times[times.length - 1] ?? 0;
  const pieces: Point[][] = [];
  let last = -Infinity;
  metrics.forEach((metric, index) => {
    if (metric === null || top <= 0) {
      return;
    }
    const share = Math.min(1, Math.max(0, metric / top));
    const point: Point = [
      HISTORY - (newest - times[index]),
      HEIGHT * (1 - share)
    ];
    if (times[index] - last > GAP) {
      pieces.push([]);
    }
    pieces[pieces.length - 1].push(point);
    last = times[index];
  });
  return pieces;
}

function lineThrough(points: Point[]): string {
  return points
    .map(([x, y], index) => `${index ? 'L' : 'M'}${tenths(x)} ${tenths(y)}`)
    .join('');
}

/** From the end of a line to the ground, and back below its beginning. */
function downFrom(points: Point[]): string {
  const first = tenths(points[0][0]);
  const last = tenths(points[points.length - 1][0]);
  return `L${last} ${HEIGHT}L${first} ${HEIGHT}Z`;
}

function tenths(length: number): number {
  return Math.round(length * 10) / 10;
}
