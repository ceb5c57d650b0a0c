import React from 'react';

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
