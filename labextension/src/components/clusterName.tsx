import React from 'react';

import '../../style/states.css';

import { shortName } from '../cluster/names';
import { useGpuDask } from './liveWidget';

/** A name without the suffix of notebooks, which is cut in its middle if there is no room. */
export function ShortName({ name }: { name: string }): JSX.Element {
  const short = shortName(name);
  const cut = short.length - (short.length > SHORT ? END : 0);
  return (
    <span className="jp-GpuDask-shortName">
      <span>{short.slice(0, cut)}</span>
      <span>{short.slice(cut)}</span>
    </span>
  );
}

/** Longer names may be cut, all but so many letters at their end. */
const SHORT = 10;
const END = 4;

/** The letter and the color of a cluster, the same wherever it is shown; nothing while there is only one. */
export function ClusterBadge({
  kernelId
}: {
  kernelId: string | null;
}): JSX.Element | null {
  const { model } = useGpuDask();
  const number = model.numberOf(kernelId ?? '');
  return number === null ? null : (
    <span
      className="jp-GpuDask-badge"
      style={{ background: COLORS[number % COLORS.length] }}
      aria-hidden="true"
    >
      {String.fromCharCode(65 + (number % LETTERS))}
    </span>
  );
}

/** The colors of clusters, on which white letters can be read, in light and dark themes. */
export const COLORS = [
  '#1565c0',
  '#ad1457',
  '#2e7d32',
  '#7b1fa2',
  '#a04000',
  '#00695c'
];
const LETTERS = 26;
