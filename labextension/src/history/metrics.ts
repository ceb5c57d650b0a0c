/**
 * The metrics of the history, grouped by GPUs, workers and the machine.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { GpuDaskModel } from '../model/model';
import { ISource, ISources } from './sources';
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
