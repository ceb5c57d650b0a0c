/**
 * Lists of which only the rows are drawn that can be seen; all rows are of one height.
 */
import { RefObject, UIEvent, useLayoutEffect, useRef, useState } from 'react';

/** So many rows are drawn above the window and below it. */
const SPARE = 8;

interface IWindowed {
  /** Of the node that scrolls. */
  ref: RefObject<HTMLDivElement>;
  onScroll: (event: UIEvent) => void;
  /** The rows that are to be drawn: from the first to before the last. */
  from: number;
  to: number;
  /** The room that the others take, in pixels. */
  above: number;
  below: number;
}

/**
 * @param count - how many rows there are
 * @param selector - finds a row in the node that scrolls
 */
export function useWindowed(count: number, selector: string): IWindowed {
  const ref = useRef<HTMLDivElement>(null);
  const [rowHeight, setRowHeight] = useState(0);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(SPARE);

  useLayoutEffect(() => {
    const measure = (): void => {
      const row = ref.current?.querySelector(selector);
      const height = row?.getBoundingClientRect().height ?? 0;
      if (ref.current && height > 0) {
        setRowHeight(height);
        setRoom(Math.ceil(ref.current.clientHeight / height));
      }
    };
    const observer = new ResizeObserver(measure);
    if (ref.current) {
      observer.observe(ref.current);
    }
    return () => observer.disconnect();
  }, [selector]);

  const from = Math.max(0, Math.min(top, count - room) - SPARE);
  const to = Math.min(count, top + room + SPARE);
  return {
    ref,
    onScroll: ({ currentTarget: { scrollTop } }) =>
      // In steps, so that not every frame draws.
      setTop(rowHeight ? stepDown(scrollTop / rowHeight) : 0),
    from,
    to,
    above: from * rowHeight,
    below: (count - to) * rowHeight
  };
}

function stepDown(row: number): number {
  const step = SPARE / 2;
  return Math.floor(row / step) * step;
}
