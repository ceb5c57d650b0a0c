/**
 * How the tabs with plots of a cluster are arranged, as a layout.
 */
import { ILabShell } from '@jupyterlab/application';
import { DockLayout, Widget } from '@lumino/widgets';

import { ICluster } from '../model/api';
import { ILayout, IPlotPlace } from '../model/settings';
import { findNotebook } from '../notebook/currentKernel';
import { clusterDashboard, IDashboard, plotName } from './dashboard';
import type { DashboardTab } from './tab';

type Area = DockLayout.AreaConfig;
type Mode = NonNullable<IPlotPlace['mode']>;

/** Stands for the notebook among the names of plots. */
const NOTEBOOK = Symbol('notebook');

type Name = string | typeof NOTEBOOK;

/** Tabs in one place, or parts that stand beside each other; none is empty, and no part is alone. */
type Part = { names: Name[] } | { parts: Part[]; before: Mode; after: Mode };

/** Under which name the arrangement of a cluster is kept: the next cluster of its notebook may have another kernel. */
export function keptKey(cluster: ICluster): string {
  return keyOf(clusterDashboard(cluster));
}

/**
 * Keep how the plots of each cluster are arranged.
 *
 * @param kept - the arrangements, which are changed
 * @param tabs - the tabs with plots
 * @param shell - the tabs of the main area
 */
export function keepArrangements(
  kept: Map<string, ILayout>,
  tabs: DashboardTab[],
  shell: ILabShell
): void {
  const area = shell.saveLayout().mainArea?.dock?.main;
  for (const { dashboard } of tabs) {
    const { kernelId } = dashboard;
    const notebook = findNotebook(shell, kernelId);
    const nameOf = (widget: Widget): string | undefined => {
      const shown = tabs.find(tab => tab === widget)?.dashboard;
      return shown?.kernelId === kernelId
        ? plotName(shown.plot?.path ?? 'status')
        : undefined;
    };
    const layout = arrangementOf(area, nameOf, notebook);
    if (Object.keys(layout).length > 0) {
      kept.set(keyOf(dashboard), layout);
    }
  }
}

function keyOf({ notebooks = [], kernelId }: IDashboard): string {
  return notebooks.at(0) ?? kernelId;
}

/**
 * Describe an arrangement of plots.
 *
 * @param area - the areas of the main area
 * @param nameOf - the name of the plot that a tab shows; undefined for a tab that does not belong to the arrangement
 * @param notebook - the notebook beside which they are
 * @returns a layout that places them in the same way; the sizes are not part of it
 */
function arrangementOf(
  area: Area | null | undefined,
  nameOf: (tab: Widget) => string | undefined,
  notebook: Widget | undefined
): ILayout {
  const root = area && partOf(area, nameOf, notebook);
  const layout: ILayout = {};
  if (root) {
    const first = leaderOf(root);
    if (first !== NOTEBOOK) {
      layout[first] = { mode: 'split-right' };
    }
    arrange(root, layout);
  }
  return layout;
}

function partOf(
  area: Area,
  nameOf: (tab: Widget) => string | undefined,
  notebook: Widget | undefined
): Part | null {
  if (area.type === 'tab-area') {
    const names = area.widgets.flatMap((tab): Name[] =>
      tab === notebook ? [NOTEBOOK] : [nameOf(tab) ?? []].flat()
    );
    return names.length > 0 ? { names } : null;
  }
  const parts = area.children.flatMap(
    child => partOf(child, nameOf, notebook) ?? []
  );
  if (parts.length < 2) {
    return parts.at(0) ?? null;
  }
  return area.orientation === 'horizontal'
    ? { parts, before: 'split-left', after: 'split-right' }
    : { parts, before: 'split-top', after: 'split-bottom' };
}

/** The tab of a part that is placed first: the notebook, or else the first plot. */
function leaderOf(part: Part): Name {
  const all = namesIn(part);
  return all.includes(NOTEBOOK) ? NOTEBOOK : all[0];
}

function namesIn(part: Part): Name[] {
  return 'names' in part ? part.names : part.parts.flatMap(namesIn);
}

/**
 * Place the tabs of a part, whose leader is placed.
 *
 * The leaders of its parts come first: what is later placed beside one of them then divides this part only.
 */
function arrange(part: Part, layout: ILayout): void {
  const isTabs = 'names' in part;
  const leaders = isTabs ? part.names : part.parts.map(leaderOf);
  const [before, after]: Mode[] = isTabs
    ? ['tab-before', 'tab-after']
    : [part.before, part.after];
  const start = leaders.indexOf(leaderOf(part));
  const place = (number: number, mode: Mode, beside: Name): void => {
    const name = leaders[number];
    if (name !== NOTEBOOK) {
      layout[name] = {
        mode,
        ref: beside === NOTEBOOK ? null : beside
      };
    }
  };
  for (let number = start + 1; number < leaders.length; number++) {
    place(number, after, leaders[number - 1]);
  }
  for (let number = start - 1; number >= 0; number--) {
    place(number, before, leaders[number + 1]);
  }
  if (!isTabs) {
    part.parts.forEach(each => arrange(each, layout));
  }
}
