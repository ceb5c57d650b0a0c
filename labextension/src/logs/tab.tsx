/**
 * The tab with the logs of a cluster, loaded when it is first opened, and its place.
 */
import { listIcon } from '@jupyterlab/ui-components';
import { DockLayout, DockPanel, Widget } from '@lumino/widgets';
import React from 'react';

import '../../style/logs.css';

import { LiveTab } from '../components/liveTab';
import { LiveWidget } from '../components/liveWidget';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import { LogsView } from './logsView';

/** The widget id of the tab with the logs of a cluster. */
export function logsId({ kernel_id: id }: ICluster): string {
  return `jupyter-gpudask-logs-${id}`;
}

/** The logs of a cluster. */
export class LogsTab extends LiveTab {
  constructor(
    private readonly _gpuDask: IGpuDask,
    cluster: ICluster
  ) {
    const content: LiveWidget = new LiveWidget(_gpuDask, () => (
      <LogsView
        cluster={this._cluster}
        isVisible={() => content.isVisible && !document.hidden}
      />
    ));
    super({
      id: logsId(cluster),
      label: _gpuDask.trans.__('Logs: %1', cluster.name),
      icon: listIcon,
      className: 'jp-GpuDask-logs',
      content
    });
    this._cluster = cluster;
    _gpuDask.model.changed.connect(this._rename, this);
  }

  override dispose(): void {
    this._gpuDask.model.changed.disconnect(this._rename, this);
    super.dispose();
  }

  /** Follow the name of the notebook; that of a cluster that has gone stays. */
  private _rename(): void {
    const { model, trans } = this._gpuDask;
    const now = model.clusters.get(this._cluster.kernel_id);
    if (now && now.name !== this._cluster.name) {
      this._cluster = { ...this._cluster, name: now.name };
      this.title.label = trans.__('Logs: %1', now.name);
    }
  }

  private _cluster: ICluster;
}

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
