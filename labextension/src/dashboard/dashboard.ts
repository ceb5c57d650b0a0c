/**
 * Which dashboard is meant: Dask's of a kernel's cluster, or one plot of it.
 */
import { URLExt } from '@jupyterlab/coreutils';
import {
  ReadonlyJSONObject,
  ReadonlyPartialJSONObject
} from '@lumino/coreutils';

import { ICluster } from '../model/api';
import { DASHBOARDS, IPlot } from '../model/rest';

/** What a dashboard is opened by, now and when the layout is restored. */
export interface IDashboard {
  kernelId: string;
  /** The notebook. */
  name: string;
  /** The paths of the notebooks, by which it is found again when they have another kernel. */
  notebooks?: readonly string[];
  /** Of the whole dashboard there is none. */
  plot?: IPlot;
  /** Of its tab; by it the layout finds the place of the tab again. */
  id?: string;
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

/** The dashboard of a cluster. */
export function dashboardFor(
  cluster: ICluster,
  plot?: IPlot,
  id?: string
): IDashboard {
  const { kernel_id: kernelId, name, notebooks } = cluster;
  return { kernelId, name, notebooks, plot, id };
}

/** What a layout keeps of it. */
export function dashboardArgs(dashboard: IDashboard): ReadonlyJSONObject {
  const { kernelId, name, notebooks = [], plot, id = '' } = dashboard;
  return { kernelId, name, notebooks: [...notebooks], id, ...plot };
}

/** The dashboard that a layout has kept. */
export function dashboardOf(args: ReadonlyPartialJSONObject): IDashboard {
  const { kernelId, name, path, title, id } = args;
  const plot = path ? { path: `${path}`, title: `${title}` } : undefined;
  const notebooks = Array.isArray(args.notebooks)
    ? args.notebooks.map(String)
    : [];
  return {
    kernelId: `${kernelId}`,
    name: `${name}`,
    notebooks,
    plot,
    id: id ? `${id}` : undefined
  };
}

/** The cluster that a dashboard is to show: its kernel's, or that of the kernel which its notebook has now. */
export function clusterFor(
  { kernelId, notebooks = [] }: IDashboard,
  clusters: ReadonlyMap<string, ICluster>
): ICluster | undefined {
  const own = clusters.get(kernelId);
  if (own && isAlive(own)) {
    return own;
  }
  const successor = [...clusters.values()].find(
    each =>
      isAlive(each) && each.notebooks.some(path => notebooks.includes(path))
  );
  return successor ?? own;
}

/** Whether a dashboard of that cluster can be seen. */
export function hasDashboard(
  cluster: ICluster | undefined
): cluster is ICluster & { dashboard: string } {
  return cluster?.status === 'ready' && cluster.dashboard !== null;
}

function isAlive({ status }: ICluster): boolean {
  return status === 'starting' || status === 'ready';
}
