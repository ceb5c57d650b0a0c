import React, { useEffect, useRef, useState } from 'react';

import { PANEL_SECONDS } from '../model/connection';

interface ICardProps extends React.LiHTMLAttributes<HTMLLIElement> {
  /** When this changes, the card is rendered even if it is not visible. */
  version: string;
  children: React.ReactNode;
}

/** A list item that is rendered again only while it is visible. */
export function Card({ version, children, ...rest }: ICardProps): JSX.Element {
  const node = useRef<HTMLLIElement>(null);
  const isVisible = useIsVisible(node);
  const rendered = useRef({ version, children });
  if (isVisible || rendered.current.version !== version) {
    rendered.current = { version, children };
  }
  // React skips elements that are identical to the previous ones.
  return (
    <li ref={node} className="jp-GpuDask-card" {...rest}>
      {rendered.current.children}
    </li>
  );
}

/** Whether an element is visible, and not scrolled out of view. */
export function useIsVisible(node: React.RefObject<Element>): boolean {
  const [isVisible, setIsVisible] = useState(true);
  useEffect(() => {
    const observer = new IntersectionObserver(entries =>
      setIsVisible(entries[entries.length - 1].isIntersecting)
    );
    if (node.current) {
      observer.observe(node.current);
    }
    return () => observer.disconnect();
  }, []);
  return isVisible;
}

interface IMeterProps {
  /** The name of the metric. */
  label: string;
  /** From 0 to 100. */
  percent: number;
  /** The value with its unit. */
  text: string;
  kind: 'busy' | 'memory';
}

/** Memory is nearly full from this percentage on. */
const NEARLY_FULL = 90;

/** A bar that shows a percentage. */
export function Meter({
  label,
  percent,
  text,
  kind
}: IMeterProps): JSX.Element {
  const isFull = kind === 'memory' && percent >= NEARLY_FULL;
  return (
    <div
      className="jp-GpuDask-meter"
      data-kind={isFull ? 'full' : kind}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(percent)}
      aria-valuetext={text}
    >
      <div style={{ transform: `translateX(${percent - 100}%)` }} />
    </div>
  );
}

interface ISparklineProps {
  /** The times of the metrics, in seconds. */
  times: number[];
  /** From 0 to `top`; null if not available. */
  metrics: (number | null)[];
  top: number;
  kind: 'busy' | 'memory';
}

const HEIGHT = 20;
/** The line is broken where no metric is known for more than this many seconds. */
const GAP = 4;

/** A line of the last minute. It is decorative: the text beside it has the current value. */
export function Sparkline({
  times,
  metrics,
  top,
  kind
}: ISparklineProps): JSX.Element {
  const segments = splitAtGaps(times, metrics, top);
  return (
    <svg
      className="jp-GpuDask-sparkline"
      data-kind={kind}
      viewBox={`0 0 ${PANEL_SECONDS} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      {segments.map((segment, index) => {
        const line = linePath(segment);
        return (
          <React.Fragment key={index}>
            <path className="jp-GpuDask-area" d={line + areaEnd(segment)} />
            <path className="jp-GpuDask-line" d={line} />
          </React.Fragment>
        );
      })}
    </svg>
  );
}

type Point = readonly [x: number, y: number];

/** Convert metrics to points, split where the line is broken. */
export function splitAtGaps(
  times: number[],
  metrics: (number | null)[],
  top: number
): Point[][] {
  const newest = times[times.length - 1] ?? 0;
  const segments: Point[][] = [];
  let last = -Infinity;
  metrics.forEach((metric, index) => {
    if (metric === null || top <= 0) {
      return;
    }
    const share = Math.min(1, Math.max(0, metric / top));
    const point: Point = [
      PANEL_SECONDS - (newest - times[index]),
      HEIGHT * (1 - share)
    ];
    if (times[index] - last > GAP) {
      segments.push([]);
    }
    segments[segments.length - 1].push(point);
    last = times[index];
  });
  return segments;
}

function linePath(points: Point[]): string {
  return points
    .map(([x, y], index) => `${index ? 'L' : 'M'}${tenths(x)} ${tenths(y)}`)
    .join('');
}

/** The path from the end of a line to the baseline, and back to its start. */
function areaEnd(points: Point[]): string {
  const first = tenths(points[0][0]);
  const last = tenths(points[points.length - 1][0]);
  return `L${last} ${HEIGHT}L${first} ${HEIGHT}Z`;
}

function tenths(length: number): number {
  return Math.round(length * 10) / 10;
}
