/**
 * The tab with the logs of a cluster, loaded when it is first opened.
 */
import { listIcon } from '@jupyterlab/ui-components';
import React from 'react';

import '../../style/logs.css';

import { LiveTab } from '../components/liveTab';
import { LiveWidget } from '../components/liveWidget';
import { ICluster } from '../model/api';
import { RestClient } from '../model/rest';
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
    rest: RestClient,
    cluster: ICluster
  ) {
    const content: LiveWidget = new LiveWidget(_gpuDask, () => (
      <LogsView
        cluster={this._cluster}
        rest={rest}
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
