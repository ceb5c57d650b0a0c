/**
 * The sources of metrics in the history, and their metrics by GPUs, workers and the machine.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formerName, workerNames } from '../cluster/names';
import { isShown } from '../cluster/offered';
import { formatBytes, Units } from '../format';
import { ICluster } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { HistoryStore, ISourceHistory, MetricId, Series } from './store';

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
  id: 'gpus' | 'workers' | 'machine';
  title: string;
  sources: ISource[];
  metrics: IMetric[];
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
    },
    {
      id: 'machine',
      title: trans.__('Machine'),
      ...read(
        machineMetrics(model, trans),
        sources.machine,
        store.machine,
        store
      )
    }
  ];
  return groups.filter(group => group.metrics.length > 0);
}

/** The name of a chart in the setting `hiddenCharts`. */
export function chartId(group: IGroup, metric: IMetric): string {
  return `${group.id}-${metric.id}`;
}

/** The groups without these charts, and without the groups of which none is left. */
export function withoutCharts(groups: IGroup[], hidden: string[]): IGroup[] {
  return groups
    .map(group => ({
      ...group,
      metrics: group.metrics.filter(
        metric => !hidden.includes(chartId(group, metric))
      )
    }))
    .filter(group => group.metrics.length > 0);
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
    { id: 'cpu', title: trans.__('CPU'), unit: 'percent' },
    { id: 'pool', title: trans.__('Memory pool'), unit: 'bytes' },
    { id: 'spilled', title: trans.__('Spilled'), unit: 'bytes' },
    { id: 'host', title: trans.__('Host memory'), unit: 'bytes' }
  ];
}

function machineMetrics(
  model: GpuDaskModel,
  trans: TranslationBundle
): IMetricType[] {
  return [
    { id: 'cpu', title: trans.__('CPU'), unit: 'percent', top: 100 },
    {
      id: 'memory',
      title: trans.__('Memory'),
      unit: 'bytes',
      top: model.memoryTotal ?? 0
    },
    { id: 'disk', title: trans.__('Disk'), unit: 'speed' },
    { id: 'network', title: trans.__('Network'), unit: 'speed' }
  ];
}

/** Format a value with its unit. */
export function formatValue(
  value: number,
  unit: IMetric['unit'],
  trans: TranslationBundle,
  units: Units
): string {
  switch (unit) {
    case 'percent':
      return trans.__('%1 %', value.toFixed(0));
    case 'bytes':
      return formatBytes(value, units);
    case 'speed':
      return trans.__('%1/s', formatBytes(value, units));
    case 'rate':
      return value.toFixed(value > 0 && value < 10 ? 1 : 0);
  }
}

/** A source of metrics: a GPU, a worker of a cluster, or the machine. */
export interface ISource {
  key: string;
  name: string;
  /** The model of the GPU, or the notebook of the worker; else empty. */
  details: string;
  /** The kernel of the worker's cluster; else empty. */
  kernelId: string;
  /** The UUID of the GPU, the name of the worker in Dask, or `MACHINE`. */
  id: string;
}

/** The sources in the store. */
export interface ISources {
  gpus: ISource[];
  workers: ISource[];
  machine: ISource[];
}

/**
 * The sources in the store, with their current names.
 *
 * @param currentId - the current kernel, whose workers are shown even if those of other notebooks are hidden
 */
export function sourcesOf(
  model: GpuDaskModel,
  store: HistoryStore,
  trans: TranslationBundle,
  currentId: string | null
): ISources {
  return {
    gpus: gpusIn(model, store, trans),
    workers: workersIn(model, store, trans).filter(({ kernelId }) =>
      isShown(kernelId, currentId, model.settings.value)
    ),
    machine: machineIn(store, trans)
  };
}

/** A text that differs when the names of the sources must be read again. */
export function sourceNamesKey(
  { gpus, clusters, settings }: GpuDaskModel,
  currentId: string | null
): string {
  const clusterKeys = [...clusters.values()].map(
    ({ kernel_id, name, state }) =>
      `${kernel_id} ${name} ${state?.workers.length}`
  );
  const { otherClusters } = settings.value;
  return `${gpus?.gpus.length} ${clusterKeys.join()} ${otherClusters} ${currentId}`;
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
  const names = new Map<string, Map<string, string>>();
  for (const [kernelId, { state }] of model.clusters) {
    names.set(kernelId, workerNames(state?.workers ?? [], trans, true));
  }
  const gpus = model.gpus?.gpus ?? [];
  return [...store.workers].map(([key, { kernelId, id }]) => {
    const cluster = model.clusters.get(kernelId);
    const name = names.get(kernelId)?.get(id) ?? formerName(id, gpus, trans);
    return { key, name, details: detailsOf(cluster, trans), kernelId, id };
  });
}

function machineIn(store: HistoryStore, trans: TranslationBundle): ISource[] {
  return [...store.machine].map(([key, { kernelId, id }]) => ({
    key,
    name: trans.__('This machine'),
    details: '',
    kernelId,
    id
  }));
}

function detailsOf(
  cluster: ICluster | undefined,
  trans: TranslationBundle
): string {
  return cluster?.name ?? trans.__('an earlier cluster');
}

/** The name of a source with its details: "GPU 0 (NVIDIA H200)". */
export function fullName({ name, details }: ISource): string {
  return details ? `${name} (${details})` : name;
}
