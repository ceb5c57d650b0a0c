import React, { useEffect, useRef, useState } from 'react';

import { percentage } from '../format';
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

interface IUnchangedProps {
  /** All that the children depend on. */
  by: unknown[];
  children: React.ReactNode;
}

/** What is rendered again only when something has changed by which it does: most ticks change metrics alone. */
export const Unchanged = React.memo(
  ({ children }: IUnchangedProps) => <>{children}</>,
  (old, { by }) => String(old.by) === String(by)
);

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

/** The last minute, with a bar for each metric. It is decorative: the text beside it has the current value. */
export function Sparkline({
  times,
  metrics,
  top,
  kind
}: ISparklineProps): JSX.Element {
  const start = (times.at(-1) ?? 0) - PANEL_SECONDS;
  const bars = metrics.map((metric, index) => {
    const x = (times[index] - start).toFixed(1);
    const y = HEIGHT - percentage(metric ?? 0, top) * (HEIGHT / 100);
    return metric === null ? '' : `M${x} ${HEIGHT}V${y.toFixed(1)}`;
  });
  return (
    <svg
      className="jp-GpuDask-sparkline"
      data-kind={kind}
      viewBox={`0 0 ${PANEL_SECONDS} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      <path d={bars.join('')} />
    </svg>
  );
}
