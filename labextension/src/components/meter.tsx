import React from 'react';

interface IMeterProps {
  /** What is measured. */
  label: string;
  /** From 0 to 100. */
  percent: number;
  /** The metric in words. */
  text: string;
  kind: 'busy' | 'memory';
}

/** From this fill on memory is about to run out. */
const NEARLY_FULL = 90;

/** A bar that is as full as what it measures. */
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
