/**
 * Dask's dashboard of a cluster, as a tab.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import { IFrame } from '@jupyterlab/ui-components';

import { gpuDaskIcon } from './icon';

/** What a dashboard is opened by, now and when the layout is restored. */
export interface IDashboard {
  kernelId: string;
  /** The notebook. */
  name: string;
}

export function dashboardUrl(baseUrl: string, kernelId: string): string {
  const id = encodeURIComponent(kernelId);
  return URLExt.join(baseUrl, 'gpudask/dashboard', id, 'status');
}

/** A tab with a dashboard. */
export class DashboardTab extends MainAreaWidget<IFrame> {
  constructor(
    readonly dashboard: IDashboard,
    baseUrl: string,
    trans: TranslationBundle
  ) {
    const title = trans.__('Dask: %1', dashboard.name);
    const content = new IFrame({
      sandbox: ['allow-scripts', 'allow-same-origin', 'allow-downloads']
    });
    content.url = dashboardUrl(baseUrl, dashboard.kernelId);
    content.node.querySelector('iframe')?.setAttribute('title', title);
    super({ content });
    this.toolbar.hide();
    this.id = dashboardId(dashboard.kernelId);
    this.title.label = title;
    this.title.icon = gpuDaskIcon;
    this.title.closable = true;
  }
}

/** The id of its tab; each cluster has one. */
export function dashboardId(kernelId: string): string {
  return `jupyter-gpudask-dashboard-${kernelId}`;
}
