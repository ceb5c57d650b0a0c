/**
 * Dask's dashboard of a cluster, or one plot of it, as a tab.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import { IFrame } from '@jupyterlab/ui-components';
import {
  ReadonlyJSONObject,
  ReadonlyPartialJSONObject
} from '@lumino/coreutils';

import { gpuDaskIcon } from './icon';
import { DASHBOARDS, IPlot } from './model/rest';

/** What a dashboard is opened by, now and when the layout is restored. */
export interface IDashboard {
  kernelId: string;
  /** The notebook. */
  name: string;
  /** Of the whole dashboard there is none. */
  plot?: IPlot;
}

/** Where a page of the dashboard of a kernel's cluster is. */
export function dashboardUrl(
  baseUrl: string,
  kernelId: string,
  path = 'status'
): string {
  const id = encodeURIComponent(kernelId);
  return URLExt.join(baseUrl, DASHBOARDS, id, path);
}

/** A tab with a dashboard. */
export class DashboardTab extends MainAreaWidget<IFrame> {
  constructor(
    readonly dashboard: IDashboard,
    baseUrl: string,
    trans: TranslationBundle
  ) {
    const { kernelId, name, plot } = dashboard;
    const title = plot
      ? trans.__('%1: %2', plot.title, name)
      : trans.__('Dask: %1', name);
    const content = new IFrame({
      sandbox: ['allow-scripts', 'allow-same-origin', 'allow-downloads']
    });
    content.url = dashboardUrl(baseUrl, kernelId, plot?.path);
    content.node.querySelector('iframe')?.setAttribute('title', title);
    super({ content });
    this.toolbar.hide();
    this.id = dashboardId(dashboard);
    this.title.label = title;
    this.title.icon = gpuDaskIcon;
    this.title.closable = true;
  }
}

/** The id of its tab; each plot of each cluster has one. */
export function dashboardId({ kernelId, plot }: IDashboard): string {
  return `jupyter-gpudask-dashboard-${kernelId}${plot?.path ?? ''}`;
}

/** What a layout keeps of it. */
export function dashboardArgs({ dashboard }: DashboardTab): ReadonlyJSONObject {
  const { kernelId, name, plot } = dashboard;
  return { kernelId, name, ...plot };
}

/** The dashboard that a layout has kept. */
export function dashboardOf(args: ReadonlyPartialJSONObject): IDashboard {
  const { kernelId, name, path, title } = args;
  const plot = path ? { path: `${path}`, title: `${title}` } : undefined;
  return { kernelId: `${kernelId}`, name: `${name}`, plot };
}
