/**
 * What the server has recorded while a cluster was busy: cells, and the samples of long ranges.
 */
import { useEffect, useRef, useState } from 'react';

import { ICellBand } from '../model/api';
import { IGpuDask } from '../tokens';
import { HistoryStore } from './store';

interface IPast {
  /** The length of its range, in seconds. */
  span: number;
  store: HistoryStore;
  cells: ICellBand[];
}

/** After so many milliseconds what was recorded is read again. */
const PERIOD = 30000;

/** What was recorded in the last `span` seconds; read again while the view is rendered. */
export function usePast({ rest }: IGpuDask, span: number): IPast | null {
  const [past, setPast] = useState<IPast | null>(null);
  const read = useRef({ span: 0, at: 0 });
  useEffect(() => {
    const now = Date.now();
    if (read.current.span === span && now - read.current.at < PERIOD) {
      return;
    }
    read.current = { span, at: now };
    rest
      .history(span)
      .then(({ samples, cells, step }) => {
        const store = new HistoryStore(span, step);
        store.add(samples);
        if (read.current.span === span) {
          setPast({ span, store, cells });
        }
      })
      .catch(() => undefined); // the notice of the connection says why
  });
  return past?.span === span ? past : null;
}

/** The recorded cells with those that the clusters report, which are newer; the newest first. */
export function cellsIn(
  past: IPast | null,
  { clusters }: IGpuDask['model']
): ICellBand[] {
  const all = new Map(past?.cells.map(cell => [keyOf(cell), cell]));
  for (const { kernel_id, notebooks, cells } of clusters.values()) {
    for (const cell of cells) {
      const band = { ...cell, kernel_id, notebook: notebooks[0] ?? '' };
      all.set(keyOf(band), band);
    }
  }
  return [...all.values()].sort((one, other) => other.began - one.began);
}

function keyOf({ kernel_id: kernelId, began }: ICellBand): string {
  return `${kernelId} ${began}`;
}
