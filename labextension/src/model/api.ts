/**
 * The types of the server's REST interface and stream.
 *
 * They are derived from `openapi.ts`, which `make fix` generates from the server's OpenAPI description. Sizes are in
 * bytes, times in seconds since the epoch; a metric that is not available is null.
 */
import { components } from './openapi';

type Schemas = components['schemas'];

/** A process with a CUDA context on a GPU. */
export type IGpuUser = Schemas['GpuUser'];

/** A cluster that has reserved a GPU. */
export type IGpuHolder = Schemas['GpuHolder'];

/** A GPU with its metrics, the clusters that have reserved it, and its processes. */
export type IGpu = Schemas['GpuInfo'];

/** An error of the server's catalog. */
export type IErrorDetails = Schemas['ErrorDetails'];

/** The GPUs of the machine; `reason` is why some or all are missing. */
export type IGpuList = Schemas['GpuList'];

/** The state of a worker. */
export type IWorker = Schemas['WorkerState'];

/** An unexpected exit of a worker process. */
export type IWorkerExit = Schemas['WorkerExit'];

/** Whether workers have GPUs, or may have them until the engine is decided. */
export function mayHaveGpus(engine: unknown): boolean {
  return engine !== 'cpu';
}

/** The options of a cluster. */
export type IClusterSpec = Schemas['ClusterSpec'];

/** The options of a request; the server validates them, so that any text may be sent. */
export type SpecRequest = {
  [name: string]: string | number | boolean | string[];
};

/** The cluster of a kernel, or a shared cluster. */
export type ICluster = Schemas['ClusterInfo'];

/** Whether the id, in place of that of a kernel, is of a shared cluster. */
export function isShared(kernelId: string): boolean {
  return kernelId.startsWith('shared-');
}

export type ClusterStatus = ICluster['status'];

/** The presets and the default cluster options. */
export type IPresetList = Schemas['PresetList'];

/** The body of an error response. */
export type IProblem = Omit<Schemas['Problem'], 'others' | 'error'> & {
  error?: IErrorDetails | null;
  others?: IProblem[];
};

/** A cell that runs, for which `seconds` is null, or has run; the path of its notebook may be empty. */
export type ICellBand = Schemas['CellBand'];

/** What the server has recorded while a cluster was busy. */
export type IHistoryPart = Omit<Schemas['HistoryPart'], 'samples'> & {
  samples: ISample[];
};

/** The metrics of a worker in a sample. */
export type IWorkerMetrics = Schemas['WorkerMetrics'];

/** The metrics of the machine, of all GPUs (by UUID) and of all workers (by kernel id and name) at one time. */
export type ISample = Pick<Schemas['Sample'], 'time'> & {
  gpus: { [uuid: string]: Schemas['GpuMetrics'] };
  workers: { [kernelId: string]: { [name: string]: IWorkerMetrics } };
  /** Not in recordings of earlier versions. */
  machine?: Schemas['MachineMetrics'];
};

/** A message of the stream: the full state, or what has changed. */
export type IStreamMessage = Omit<Schemas['StreamMessage'], 'history'> & {
  history: ISample[];
};
