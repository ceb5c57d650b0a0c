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
  constructor(gpuDask: IGpuDask, rest: RestClient, cluster: ICluster) {
    const content: LiveWidget = new LiveWidget(gpuDask, () => (
      <LogsView
        cluster={cluster}
        rest={rest}
        isVisible={() => content.isVisible && !document.hidden}
      />
    ));
    super({
      id: logsId(cluster),
      label: gpuDask.trans.__('Logs: %1', cluster.name),
      icon: listIcon,
      className: 'jp-GpuDask-logs',
      content
    });
  }
}
