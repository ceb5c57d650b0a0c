/**
 * The height of long lists: they take the height that the rest of their section leaves.
 */
import { RefObject, useLayoutEffect } from 'react';

/** The smallest height of a list, in pixels. */
const MIN_HEIGHT = 240;

/**
 * Give a scrolling list the free height of its section, but not more than its rows need.
 *
 * @param ref - the list; other lists with its class in the same section get an equal part
 */
export function useFreeHeight(ref: RefObject<HTMLElement>): void {
  useLayoutEffect(() => {
    const list = ref.current;
    const section = list?.closest<HTMLElement>('.jp-GpuDask-section');
    const body = section?.firstElementChild;
    if (!list || !section || !body) {
      return;
    }
    const fit = (): void => {
      const lists = body.getElementsByClassName(list.className).length;
      const free = section.clientHeight - (body as HTMLElement).offsetHeight;
      const height = list.offsetHeight + Math.floor(free / lists);
      const needed = list.scrollHeight + list.offsetHeight - list.clientHeight;
      list.style.height = `${Math.max(MIN_HEIGHT, Math.min(height, needed))}px`;
    };
    const observer = new ResizeObserver(fit);
    [section, body].forEach(each => observer.observe(each));
    return () => observer.disconnect();
  }, [ref]);
}
