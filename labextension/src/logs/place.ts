/**
 * Where the tab with logs is added, so that several lines of them are visible.
 */
import { DockLayout, DockPanel, Widget } from '@lumino/widgets';

/** The height of an area with the tab, the toolbar and the title of the first log above ten lines, in pixels. */
const LEAST_HEIGHT = 320;

/** Narrower areas wrap each line several times, and the toolbar. */
const LEAST_WIDTH = 300;

/** The share of the main area that a new part beside all others gets. */
const PART = 0.38;

/** Tabs that are in the same place, one of them in front. */
export interface ITabArea {
  ids: string[];
  /** The id of the tab in front. */
  front: string;
  width: number;
  height: number;
}

export interface IPlace {
  mode: DockLayout.InsertMode;
  /** The id of the tab beside which the new one is added; by default the current one. */
  ref?: string;
}

/** JupyterLab adds a tab beside all others if there is no tab with its `ref`. */
const BESIDE_ALL = 'jupyter-gpudask-beside-all';

/**
 * The place of a new tab: below the current tab; if that is too low, in front of other tabs; else beside all tabs.
 *
 * @param areas - the visible areas
 * @param total - the width of the main area
 * @param current - the id of the current tab
 * @param notebook - the id of the notebook, which stays in front
 */
export function placeOf(
  areas: ITabArea[],
  total: number,
  current?: string,
  notebook?: string
): IPlace {
  const below: IPlace = { mode: 'split-bottom' };
  const own = areas.find(({ ids }) => current && ids.includes(current));
  if (!own || own.height === 0 || own.height / 2 >= LEAST_HEIGHT) {
    return below;
  }
  const [highest] = areas
    .filter(({ front }) => front !== current && front !== notebook)
    .sort((one, other) => sizeOf(other) - sizeOf(one))
    .filter(
      ({ width, height }) => width >= LEAST_WIDTH && height >= LEAST_HEIGHT
    );
  if (highest) {
    return { mode: 'tab-after', ref: highest.front };
  }
  return PART * total >= LEAST_WIDTH
    ? { mode: 'split-right', ref: BESIDE_ALL }
    : { mode: 'tab-after', ref: own.front };
}

function sizeOf({ width, height }: ITabArea): number {
  return width * height;
}

/** The place of the logs of a notebook in JupyterLab, beside the current tab. */
export function placeBeside(
  current: Widget | null | undefined,
  notebook: Widget | undefined
): IPlace {
  const dock = current?.parent;
  return dock instanceof DockPanel
    ? placeOf(areasOf(dock), dock.node.offsetWidth, current?.id, notebook?.id)
    : placeOf([], 0);
}

/** The areas with tabs. */
function areasOf(dock: DockPanel): ITabArea[] {
  return [...dock.tabBars()].flatMap(({ titles, currentTitle, node }) => {
    const front = currentTitle?.owner;
    return front
      ? {
          ids: titles.map(({ owner }) => owner.id),
          front: front.id,
          width: front.node.offsetWidth,
          height: node.offsetHeight + front.node.offsetHeight
        }
      : [];
  });
}
