/**
 * What the history shows: whose metrics, and which.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { nameOf } from '../format';
import { ICluster, IGpu, IWorker } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { MetricId, ITrack, Past, Series } from './store';

/** A GPU, or a worker of a cluster. */
export interface ISubject {
  key: string;
  name: string;
  /** What it is beyond its name: the model of the GPU, the notebook of the worker. */
  details: string;
  /** Of a worker: whose cluster it belongs to. */
  kernelId: string;
  /** UUID of the GPU, or the worker's name in Dask. */
  id: string;
}

/** One thing that is measured. */
interface IKind {
  id: MetricId;
  title: string;
  unit: 'percent' | 'bytes' | 'speed' | 'rate';
  /** What there is of it, where that is known. */
  top?: number;
}

/** One thing that is measured, and its past for each subject of the group. */
export interface IMetric extends IKind {
  series: Series[];
}

/** Subjects that have the same metrics. */
export interface IGroup {
  id: 'gpus' | 'workers';
  title: string;
  subjects: ISubject[];
  metrics: IMetric[];
}

/** Those of whom the past knows. */
export interface ISubjects {
  gpus: ISubject[];
  workers: ISubject[];
}

export function subjectsOf(
  model: GpuDaskModel,
  past: Past,
  trans: TranslationBundle
): ISubjects {
  return {
    gpus: gpusIn(model, past, trans),
    workers: workersIn(model, past, trans)
  };
}

/** What the names of the subjects depend on, beside who is in the past: as long as it is the same, they are. */
export function namesKey({ gpus, clusters }: GpuDaskModel): string {
  const ofClusters = [...clusters.values()].map(
    ({ kernel_id, name, state }) =>
      `${kernel_id} ${name} ${state?.workers.length}`
  );
  return `${gpus?.gpus.length} ${ofClusters.join()}`;
}

/** The GPUs and workers, with the metrics that at least one of them has. */
export function groupsOf(
  model: GpuDaskModel,
  past: Past,
  subjects: ISubjects,
  trans: TranslationBundle
): IGroup[] {
  const groups: IGroup[] = [
    {
      id: 'gpus',
      title: trans.__('GPUs'),
      ...read(gpuKinds(model, trans), subjects.gpus, past.gpus, past)
    },
    {
      id: 'workers',
      title: trans.__('Workers'),
      ...read(workerKinds(trans), subjects.workers, past.workers, past)
    }
  ];
  return groups.filter(group => group.metrics.length > 0);
}

function read(
  kinds: IKind[],
  subjects: ISubject[],
  tracks: ReadonlyMap<string, ITrack>,
  { nothing }: Past
): Pick<IGroup, 'subjects' | 'metrics'> {
  const metrics = kinds.map(kind => ({
    ...kind,
    series: subjects.map(
      ({ key }) => tracks.get(key)?.series[kind.id] ?? nothing
    )
  }));
  const isKnown = (metric: IMetric): boolean =>
    metric.series.some(series => series !== nothing);
  return { subjects, metrics: metrics.filter(isKnown) };
}

function gpuKinds(model: GpuDaskModel, trans: TranslationBundle): IKind[] {
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

function workerKinds(trans: TranslationBundle): IKind[] {
  return [
    { id: 'tasks', title: trans.__('Tasks a second'), unit: 'rate' },
    { id: 'pool', title: trans.__('Memory pool'), unit: 'bytes' },
    { id: 'spilled', title: trans.__('Spilled'), unit: 'bytes' },
    { id: 'host', title: trans.__('Host memory'), unit: 'bytes' }
  ];
}

function gpusIn(
  model: GpuDaskModel,
  past: Past,
  trans: TranslationBundle
): ISubject[] {
  return (model.gpus?.gpus ?? [])
    .filter(gpu => past.gpus.has(gpu.uuid))
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
  past: Past,
  trans: TranslationBundle
): ISubject[] {
  const known = new Map<string, Map<string, IWorker>>();
  for (const [kernelId, { state }] of model.clusters) {
    known.set(kernelId, byName(state?.workers ?? []));
  }
  const gpus = model.gpus?.gpus ?? [];
  return [...past.workers].map(([key, { kernelId, id }]) => {
    const cluster = model.clusters.get(kernelId);
    const worker = known.get(kernelId)?.get(id);
    const name = worker ? nameOf(worker, trans) : goneName(id, gpus, trans);
    return { key, name, details: detailsOf(cluster, trans), kernelId, id };
  });
}

function byName(workers: IWorker[]): Map<string, IWorker> {
  return new Map(workers.map(worker => [worker.name, worker]));
}

/** A worker that may be gone has the name of its GPU still. */
function goneName(id: string, gpus: IGpu[], trans: TranslationBundle): string {
  const gpu = gpus.find(each => each.uuid === id);
  return gpu ? trans.__('GPU %1', gpu.index) : trans.__('Worker %1', id);
}

function detailsOf(
  cluster: ICluster | undefined,
  trans: TranslationBundle
): string {
  return cluster?.name ?? trans.__('an earlier cluster');
}
