/**
 * The sources of metrics in the history, and their metrics by GPUs, workers and the machine.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formerName, shortName, workerNames } from '../cluster/names';
import { isShown } from '../cluster/offered';
import { formatBytes, formatCount, Units } from '../format';
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

/** The groups, with the metrics that are known for at least one source; traffic only if there was any. */
export function metricGroups(
  model: GpuDaskModel,
  store: HistoryStore,
  sources: ISources,
  trans: TranslationBundle
): IGroup[] {
  const gpus = model.gpus?.gpus ?? [];
  const memory = Math.max(0, ...gpus.map(gpu => gpu.memory_total ?? 0));
  const host = model.memoryTotal ?? 0;
  const groups: [IGroup['id'], string, IMetricType[]][] = [
    [
      'gpus',
      trans.__('GPUs'),
      [
        { id: 'busy', title: trans.__('Busy'), unit: 'percent', top: 100 },
        { id: 'memory', title: trans.__('Memory'), unit: 'bytes', top: memory },
        { id: 'nvlink', title: trans.__('NVLink'), unit: 'speed' },
        { id: 'pcie', title: trans.__('PCIe'), unit: 'speed' }
      ]
    ],
    [
      'workers',
      trans.__('Workers'),
      [
        { id: 'tasks', title: trans.__('Tasks per second'), unit: 'rate' },
        { id: 'cpu', title: trans.__('CPU'), unit: 'percent' },
        { id: 'pool', title: trans.__('Memory pool'), unit: 'bytes' },
        { id: 'spilled', title: trans.__('Spilled'), unit: 'bytes' },
        { id: 'host', title: trans.__('Host memory'), unit: 'bytes' }
      ]
    ],
    [
      'machine',
      trans.__('Machine'),
      [
        { id: 'cpu', title: trans.__('CPU'), unit: 'percent', top: 100 },
        { id: 'memory', title: trans.__('Memory'), unit: 'bytes', top: host },
        { id: 'disk', title: trans.__('Disk'), unit: 'speed' },
        { id: 'network', title: trans.__('Network'), unit: 'speed' }
      ]
    ]
  ];
  return groups
    .map(([id, title, types]) => ({
      id,
      title,
      sources: sources[id],
      metrics: types
        .map(type => ({
          ...type,
          series: sources[id].map(
            ({ key }) => store[id].get(key)?.series[type.id] ?? store.empty
          )
        }))
        .filter(({ series, unit, id }) =>
          unit === 'speed' || id === 'spilled'
            ? series.some(each => each.some(Boolean))
            : series.some(each => each !== store.empty)
        )
    }))
    .filter(group => group.metrics.length > 0);
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
      return value > 0 && value < 10
        ? value.toFixed(1)
        : formatCount(Math.round(value));
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
  const { clusters, settings } = model;
  const gpus = model.gpus?.gpus ?? [];
  const names = new Map(
    [...clusters].map(([kernelId, { state }]) => [
      kernelId,
      workerNames(state?.workers ?? [], trans, true)
    ])
  );
  const isNow = ([, { kernelId, id }]: [string, ISourceHistory]): boolean =>
    names.get(kernelId)?.has(id) ?? false;
  return {
    gpus: gpus
      .filter(gpu => store.gpus.has(gpu.uuid))
      .map(({ uuid, index, name }) => ({
        key: uuid,
        name: trans.__('GPU %1', index),
        details: name,
        kernelId: '',
        id: uuid
      })),
    // Those of now come first.
    workers: [
      ...[...store.workers].filter(isNow),
      ...[...store.workers].filter(each => !isNow(each))
    ]
      .filter(([, { kernelId }]) =>
        isShown(kernelId, currentId, settings.value)
      )
      .map(([key, { kernelId, id }]) => ({
        key,
        name: names.get(kernelId)?.get(id) ?? formerName(id, gpus, trans),
        details: shortName(
          clusters.get(kernelId)?.name ?? trans.__('an earlier cluster')
        ),
        kernelId,
        id
      })),
    machine: [...store.machine.keys()].map(key => ({
      key,
      name: trans.__('This machine'),
      details: '',
      kernelId: '',
      id: key
    }))
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

/** The name of a source with its details: "GPU 0 (NVIDIA H200)". */
export function fullName({ name, details }: ISource): string {
  return details ? `${name} (${details})` : name;
}
