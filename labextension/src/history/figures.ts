/**
 * What the history shows: whose figures, which, and how they are read from the samples.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { ISample, IWorkerFigures } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { nameOf, spilledBy } from '../words';

export type Series = (number | null)[];

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
  id: 'busy' | 'memory' | 'host' | 'pool' | 'spilled' | 'tasks';
  title: string;
  unit: 'percent' | 'bytes' | 'rate';
  /** What there is of it, where that is known. */
  top?: number;
  read: (samples: ISample[], subject: ISubject) => Series;
}

/** One thing that is measured, and its past for each subject of the group. */
export interface IFigure extends IKind {
  series: Series[];
}

/** Subjects that have the same figures. */
export interface IGroup {
  id: 'gpus' | 'workers';
  title: string;
  subjects: ISubject[];
  figures: IFigure[];
}

/** Without a sample for so many seconds a line is broken. */
const GAP = 4;
/** Tasks a second are those of the last seconds: workers report in bursts. */
const RATE_WINDOW = 5;

/** The GPUs and workers that any sample knows, with the figures that at least one of them has. */
export function groupsOf(
  model: GpuDaskModel,
  samples: ISample[],
  trans: TranslationBundle
): IGroup[] {
  const groups: IGroup[] = [
    {
      id: 'gpus',
      title: trans.__('GPUs'),
      ...read(gpuKinds(model, trans), gpusIn(model, samples, trans), samples)
    },
    {
      id: 'workers',
      title: trans.__('Workers'),
      ...read(workerKinds(trans), workersIn(model, samples, trans), samples)
    }
  ];
  return groups.filter(group => group.figures.length > 0);
}

function read(
  kinds: IKind[],
  subjects: ISubject[],
  samples: ISample[]
): Pick<IGroup, 'subjects' | 'figures'> {
  const figures = kinds.map(kind => ({
    ...kind,
    series: subjects.map(subject => kind.read(samples, subject))
  }));
  const isKnown = (figure: IFigure): boolean =>
    figure.series.some(series => series.some(value => value !== null));
  return { subjects, figures: figures.filter(isKnown) };
}

/** The samples, with an empty one wherever nobody looked for a while. */
export function withGaps(samples: ISample[]): ISample[] {
  return samples.flatMap((sample, index) => {
    const before = samples[index - 1]?.time ?? sample.time;
    const nothing = { time: before + 1, gpus: {}, workers: {} };
    return sample.time - before > GAP ? [nothing, sample] : [sample];
  });
}

function gpuKinds(model: GpuDaskModel, trans: TranslationBundle): IKind[] {
  const totals = (model.gpus?.gpus ?? []).map(gpu => gpu.memory_total ?? 0);
  return [
    {
      id: 'busy',
      title: trans.__('Busy'),
      unit: 'percent',
      top: 100,
      read: (samples, { id }) =>
        samples.map(({ gpus }) => gpus[id]?.utilization ?? null)
    },
    {
      id: 'memory',
      title: trans.__('Memory'),
      unit: 'bytes',
      top: Math.max(0, ...totals),
      read: (samples, { id }) =>
        samples.map(({ gpus }) => gpus[id]?.memory_used ?? null)
    }
  ];
}

function workerKinds(trans: TranslationBundle): IKind[] {
  const reading =
    (pick: (worker: IWorkerFigures) => number | null) =>
    (samples: ISample[], subject: ISubject): Series =>
      samples.map(sample => {
        const worker = figuresOf(sample, subject);
        return worker ? pick(worker) : null;
      });
  return [
    {
      id: 'tasks',
      title: trans.__('Tasks a second'),
      unit: 'rate',
      read: (samples, subject) =>
        ratesOf(
          samples.map(sample => sample.time),
          reading(worker => worker.executed)(samples, subject)
        )
    },
    {
      id: 'pool',
      title: trans.__('Memory pool'),
      unit: 'bytes',
      read: reading(worker => worker.pool_used)
    },
    {
      id: 'spilled',
      title: trans.__('Spilled'),
      unit: 'bytes',
      read: reading(worker =>
        worker.spilled_to_host === null && worker.spilled_to_disk === null
          ? null
          : spilledBy(worker)
      )
    },
    {
      id: 'host',
      title: trans.__('Host memory'),
      unit: 'bytes',
      read: reading(worker => worker.memory)
    }
  ];
}

function figuresOf(
  sample: ISample,
  { kernelId, id }: ISubject
): IWorkerFigures | undefined {
  return sample.workers[kernelId]?.[id];
}

/** How fast a count grows, by the second; a count that falls began anew. */
export function ratesOf(times: number[], counts: Series): Series {
  let first = 0;
  return counts.map((count, index) => {
    while (times[index] - times[first] > RATE_WINDOW) {
      first += 1;
    }
    let from = first;
    while (from < index && counts[from] === null) {
      from += 1;
    }
    const before = counts[from];
    if (from === index || count === null || before === null) {
      return null;
    }
    return Math.max(0, count - before) / (times[index] - times[from]);
  });
}

function gpusIn(
  model: GpuDaskModel,
  samples: ISample[],
  trans: TranslationBundle
): ISubject[] {
  const seen = new Set(samples.flatMap(sample => Object.keys(sample.gpus)));
  return (model.gpus?.gpus ?? [])
    .filter(gpu => seen.has(gpu.uuid))
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
  samples: ISample[],
  trans: TranslationBundle
): ISubject[] {
  const seen = new Map<string, ISubject>();
  for (const sample of samples) {
    for (const [kernelId, workers] of Object.entries(sample.workers)) {
      for (const id of Object.keys(workers)) {
        const key = `${kernelId} ${id}`;
        if (!seen.has(key)) {
          seen.set(key, workerSubject(model, key, kernelId, id, trans));
        }
      }
    }
  }
  return [...seen.values()];
}

/** A worker that may be gone has the name of its GPU still. */
function workerSubject(
  model: GpuDaskModel,
  key: string,
  kernelId: string,
  id: string,
  trans: TranslationBundle
): ISubject {
  const cluster = model.clusters.get(kernelId);
  const worker = cluster?.state?.workers.find(each => each.name === id);
  const gpu = model.gpus?.gpus.find(each => each.uuid === id);
  const name = worker
    ? nameOf(worker, trans)
    : gpu
      ? trans.__('GPU %1', gpu.index)
      : trans.__('Worker %1', id);
  const details = cluster?.name ?? trans.__('an earlier cluster');
  return { key, name, details, kernelId, id };
}
