/**
 * The Dask dashboard of a cluster, or an individual plot of it.
 */
import { URLExt } from '@jupyterlab/coreutils';
import {
  ReadonlyJSONObject,
  ReadonlyPartialJSONObject
} from '@lumino/coreutils';

import { ICluster } from '../model/api';

/** The path of the Dask dashboards below the server's base URL. */
const DASHBOARDS = 'gpudask/dashboard';

/** An individual plot of the Dask dashboard. */
export interface IPlot {
  title: string;
  path: string;
}

/** Identifies a dashboard, also in a saved layout. */
export interface IDashboard {
  kernelId: string;
  /** The name of the notebook. */
  name: string;
  /** The paths of the notebooks; their next cluster may belong to another kernel. */
  notebooks?: readonly string[];
  /** Undefined for the whole dashboard. */
  plot?: IPlot;
  /** The id of the tab, kept in the saved layout. */
  id?: string;
}

/** The URL of a dashboard page. */
export function dashboardUrl(
  baseUrl: string,
  kernelId: string,
  path = 'status'
): string {
  const id = encodeURIComponent(kernelId);
  return URLExt.join(baseUrl, DASHBOARDS, id, path);
}

/** The name of a plot, as in settings: "task-stream" for "/individual-task-stream". */
export function plotName(path: string): string {
  return path.replace(/^\//, '').replace(/^individual-/, '');
}

/** The dashboard of a cluster. */
export function clusterDashboard(
  cluster: ICluster,
  plot?: IPlot,
  id?: string
): IDashboard {
  const { kernel_id: kernelId, name, notebooks } = cluster;
  return { kernelId, name, notebooks, plot, id };
}

/** Convert a dashboard to the arguments of the command that restores it. */
export function dashboardArgs(dashboard: IDashboard): ReadonlyJSONObject {
  const { kernelId, name, notebooks = [], plot, id = '' } = dashboard;
  return { kernelId, name, notebooks: [...notebooks], id, ...plot };
}

/** Convert the arguments of a saved layout to a dashboard. */
export function parseDashboard(args: ReadonlyPartialJSONObject): IDashboard {
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

/** Find the cluster that a dashboard shows: that of its kernel, or of the kernel that its notebook has now. */
export function findCluster(
  { kernelId, notebooks = [] }: IDashboard,
  clusters: ReadonlyMap<string, ICluster>
): ICluster | undefined {
  const own = clusters.get(kernelId);
  if (own && isActive(own)) {
    return own;
  }
  const successor = [...clusters.values()].find(
    each =>
      isActive(each) && each.notebooks.some(path => notebooks.includes(path))
  );
  return successor ?? own;
}

/** Whether a cluster has a dashboard that can be shown. */
export function hasDashboard(
  cluster: ICluster | undefined
): cluster is ICluster & { dashboard: string } {
  return cluster?.status === 'ready' && cluster.dashboard !== null;
}

function isActive({ status }: ICluster): boolean {
  return status === 'starting' || status === 'ready';
}
