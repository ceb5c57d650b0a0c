/**
 * The heights of the sections of the panel.
 */
import { AccordionPanel, Widget } from '@lumino/widgets';

/**
 * Give two sections the heights of their contents, until the user moves the handle between them.
 *
 * If both do not fit, each has at least half of the height, or as much as its content needs.
 *
 * @param panel - the panel of the sections
 * @param first - the content of the first section
 * @param second - the content of the second section
 */
export function fitSections(
  panel: AccordionPanel,
  first: Widget,
  second: Widget
): void {
  const fit = (): void => {
    // Not the heights of the sections, which are those before a change of the panel's height.
    const titles = sum(panel.titles.map(each => each.offsetHeight));
    // The handle between the sections counts too: the panel would divide the rest in proportion, and the first would be too low.
    const total = panel.node.clientHeight - titles - panel.spacing;
    const areBothOpen = panel.widgets.every(each => each.isVisible);
    if (panel.widgets.length === 2 && areBothOpen && total > 0) {
      const size = firstSize(
        total,
        first.node.offsetHeight,
        second.node.offsetHeight
      );
      panel.setRelativeSizes([size, total - size]);
    }
  };
  const observer = new ResizeObserver(fit);
  [panel, first, second].forEach(each => observer.observe(each.node));
  panel.handleMoved.connect(() => observer.disconnect());
  panel.disposed.connect(() => observer.disconnect());
}

/**
 * The height of the first section.
 *
 * @param total - the height of both
 * @param first - the height of the content of the first
 * @param second - the height of the content of the second
 */
export function firstSize(
  total: number,
  first: number,
  second: number
): number {
  const half = total / 2;
  return Math.min(first, total - Math.min(second, half));
}

function sum(heights: number[]): number {
  return heights.reduce((total, each) => total + each, 0);
}
