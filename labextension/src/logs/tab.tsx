/**
 * The tab with the logs of a cluster, loaded when it is first opened, and its place.
 */
import { listIcon } from '@jupyterlab/ui-components';
import { DockLayout, Widget } from '@lumino/widgets';
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

/** The height of a tab with its toolbar and the title of the first log above ten lines, in pixels. */
const LEAST_HEIGHT = 320;

/** Where the logs are added: below the current tab if both are then high enough, else to its right. */
export function logsMode(current: Widget | null): DockLayout.InsertMode {
  const height = current?.node.offsetHeight ?? 0;
  return height > 0 && height / 2 < LEAST_HEIGHT
    ? 'split-right'
    : 'split-bottom';
}
