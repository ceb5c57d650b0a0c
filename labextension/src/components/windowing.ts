/**
 * Windowing: only the visible rows of a list are rendered. All rows have the same height.
 */
import { RefObject, UIEvent, useLayoutEffect, useRef, useState } from 'react';

/** The number of rows that are rendered above and below the visible ones. */
const OVERSCAN = 8;

interface IWindow {
  /** The ref of the scrolling element. */
  ref: RefObject<HTMLDivElement>;
  onScroll: (event: UIEvent) => void;
  /** The rows to render: from the first up to, but not including, the last. */
  from: number;
  to: number;
  /** The height of the other rows, in pixels. */
  above: number;
  below: number;
}

/**
 * @param count - the number of rows
 * @param selector - the CSS selector of a row in the scrolling element
 */
export function useWindowed(count: number, selector: string): IWindow {
  const ref = useRef<HTMLDivElement>(null);
  const [rowHeight, setRowHeight] = useState(0);
  const [top, setTop] = useState(0);
  const [visible, setVisible] = useState(OVERSCAN);

  useLayoutEffect(() => {
    const measure = (): void => {
      const row = ref.current?.querySelector(selector);
      const height = row?.getBoundingClientRect().height ?? 0;
      if (ref.current && height > 0) {
        setRowHeight(height);
        setVisible(Math.ceil(ref.current.clientHeight / height));
      }
    };
    const observer = new ResizeObserver(measure);
    if (ref.current) {
      observer.observe(ref.current);
    }
    return () => observer.disconnect();
  }, [selector]);

  const from = Math.max(0, Math.min(top, count - visible) - OVERSCAN);
  const to = Math.min(count, top + visible + OVERSCAN);
  return {
    ref,
    onScroll: ({ currentTarget: { scrollTop } }) =>
      // In steps, so that not every frame renders.
      setTop(rowHeight ? stepDown(scrollTop / rowHeight) : 0),
    from,
    to,
    above: from * rowHeight,
    below: (count - to) * rowHeight
  };
}

function stepDown(row: number): number {
  const step = OVERSCAN / 2;
  return Math.floor(row / step) * step;
}
