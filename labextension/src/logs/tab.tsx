/**
 * The tab with the logs of a cluster, loaded when it is first opened.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { listIcon } from '@jupyterlab/ui-components';
import React from 'react';

import '../../style/logs.css';

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
export class LogsTab extends MainAreaWidget<LiveWidget> {
  constructor(gpuDask: IGpuDask, rest: RestClient, cluster: ICluster) {
    const content: LiveWidget = new LiveWidget(gpuDask, () => (
      <LogsView
        cluster={cluster}
        rest={rest}
        isVisible={() => content.isVisible && !document.hidden}
      />
    ));
    super({ content });
    this.id = logsId(cluster);
    this.addClass('jp-GpuDask');
    this.addClass('jp-GpuDask-logs');
    this.toolbar.hide();
    this.title.label = gpuDask.trans.__('Logs: %1', cluster.name);
    // The down area of Notebook 7 does not center the icon.
    this.title.icon = listIcon.bindprops({ stylesheet: 'mainAreaTab' });
    this.title.closable = true;
  }
}
