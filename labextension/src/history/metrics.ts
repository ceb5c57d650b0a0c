/**
 * The metrics of the history, grouped by GPUs and workers.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { workerName } from '../cluster/summary';
import { ICluster, IGpu, IWorker } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { HistoryStore, ISourceHistory, MetricId, Series } from './store';

/** A source of metrics: a GPU, or a worker of a cluster. */
export interface ISource {
  key: string;
  name: string;
  /** The model of the GPU, or the notebook of the worker. */
  details: string;
  /** The kernel of the worker's cluster; empty for a GPU. */
  kernelId: string;
  /** The UUID of the GPU, or the name of the worker in Dask. */
  id: string;
}

/** A metric without its values. */
interface IMetricType {
  id: MetricId;
  title: string;
  unit: 'percent' | 'bytes' | 'speed' | 'rate';
  /** The upper end of the axis, if known. */
  top?: number;
}

/** A metric with a series for each source of the group. */
export interface IMetric extends IMetricType {
  series: Series[];
}

/** Sources with the same metrics. */
export interface IGroup {
  id: 'gpus' | 'workers';
  title: string;
  sources: ISource[];
  metrics: IMetric[];
}

/** The sources in the store. */
export interface ISources {
  gpus: ISource[];
  workers: ISource[];
}

/** The sources in the store, with their current names. */
export function sourcesOf(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle
): ISources {
  return {
    gpus: gpusIn(model, store, trans),
    workers: workersIn(model, store, trans)
  };
}

/** A text that differs when the names of the sources must be read again. */
export function sourceNamesKey({ gpus, clusters }: GpuDaskModel): string {
  const clusterKeys = [...clusters.values()].map(
    ({ kernel_id, name, state }) =>
      `${kernel_id} ${name} ${state?.workers.length}`
  );
  return `${gpus?.gpus.length} ${clusterKeys.join()}`;
}

/** The groups, with the metrics that are known for at least one source. */
export function metricGroups(
  model: GpuDaskModel,
  store: HistoryStore,
  sources: ISources,
  trans: TranslationBundle
): IGroup[] {
  const groups: IGroup[] = [
    {
      id: 'gpus',
      title: trans.__('GPUs'),
      ...read(gpuMetrics(model, trans), sources.gpus, store.gpus, store)
    },
    {
      id: 'workers',
      title: trans.__('Workers'),
      ...read(workerMetrics(trans), sources.workers, store.workers, store)
    }
  ];
  return groups.filter(group => group.metrics.length > 0);
}

function read(
  types: IMetricType[],
  sources: ISource[],
  histories: ReadonlyMap<string, ISourceHistory>,
  { empty }: HistoryStore
): Pick<IGroup, 'sources' | 'metrics'> {
  const metrics = types.map(type => ({
    ...type,
    series: sources.map(
      ({ key }) => histories.get(key)?.series[type.id] ?? empty
    )
  }));
  const isKnown = (metric: IMetric): boolean =>
    metric.series.some(series => series !== empty);
  return { sources, metrics: metrics.filter(isKnown) };
}

function gpuMetrics(
  model: GpuDaskModel,
  trans: TranslationBundle
): IMetricType[] {
  const totals = (model.gpus?.gpus ?? []).map(gpu => gpu.memory_total ?? 0);
  return [
    { id: 'busy', title: trans.__('Busy'), unit: 'percent', top: 100 },
    {
      id: 'memory',
      title: trans.__('Memory'),
      unit: 'bytes',
      top: Math.max(0, ...totals)
    },
    { id: 'nvlink', title: trans.__('NVLink'), unit: 'speed' },
    { id: 'pcie', title: trans.__('PCIe'), unit: 'speed' }
  ];
}

function workerMetrics(trans: TranslationBundle): IMetricType[] {
  return [
    { id: 'tasks', title: trans.__('Tasks per second'), unit: 'rate' },
    { id: 'pool', title: trans.__('Memory pool'), unit: 'bytes' },
    { id: 'spilled', title: trans.__('Spilled'), unit: 'bytes' },
    { id: 'host', title: trans.__('Host memory'), unit: 'bytes' }
  ];
}

function gpusIn(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle
): ISource[] {
  return (model.gpus?.gpus ?? [])
    .filter(gpu => store.gpus.has(gpu.uuid))
    .map(gpu => ({
      key: gpu.uuid,
      name: trans.__('GPU %1', gpu.index),
      details: gpu.name,
      kernelId: '',
      id: gpu.uuid
    }));
}

function workersIn(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle
): ISource[] {
  const workers = new Map<string, Map<string, IWorker>>();
  for (const [kernelId, { state }] of model.clusters) {
    workers.set(kernelId, byName(state?.workers ?? []));
  }
  const gpus = model.gpus?.gpus ?? [];
  return [...store.workers].map(([key, { kernelId, id }]) => {
    const cluster = model.clusters.get(kernelId);
    const worker = workers.get(kernelId)?.get(id);
    const name = worker
      ? workerName(worker, trans)
      : formerName(id, gpus, trans);
    return { key, name, details: detailsOf(cluster, trans), kernelId, id };
  });
}

function byName(workers: IWorker[]): Map<string, IWorker> {
  return new Map(workers.map(worker => [worker.name, worker]));
}

/** The name of a worker that has left: that of its GPU, if it had one. */
function formerName(
  id: string,
  gpus: IGpu[],
  trans: TranslationBundle
): string {
  const gpu = gpus.find(each => each.uuid === id);
  return gpu ? trans.__('GPU %1', gpu.index) : trans.__('Worker %1', id);
}

function detailsOf(
  cluster: ICluster | undefined,
  trans: TranslationBundle
): string {
  return cluster?.name ?? trans.__('an earlier cluster');
}
