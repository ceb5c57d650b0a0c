/**
 * What the server sends and takes, by the names that the front end has for it.
 *
 * The types are made from the server's OpenAPI description: `jlpm types`. All sizes are bytes and all times seconds
 * since the epoch; a metric that cannot be had is null.
 */
import { components } from './openapi';

type Schemas = components['schemas'];

/** A process that has a CUDA context on a GPU. */
export type IGpuUser = Schemas['GpuUser'];

/** A cluster that holds a GPU. */
export type IGpuHolder = Schemas['GpuHolder'];

/** A GPU, who holds it, and who uses it. */
export type IGpu = Omit<
  Schemas['GpuInfo'],
  'processes' | 'nvlink_bytes' | 'pcie_bytes'
>;

/** The GPUs of the machine; `reason` says why there are none or fewer than there were. */
export type IGpuList = Omit<Schemas['GpuList'], 'gpus'> & { gpus: IGpu[] };

/** What a worker does. */
export type IWorker = Schemas['WorkerState'];

/** What a cluster does. */
export type IClusterState = Schemas['ClusterState'];

export type Engine = IClusterState['engine'];

/** The options of a cluster that the front end shows or asks for. */
export type IClusterSpec = Pick<
  Schemas['ClusterSpec'],
  | 'engine'
  | 'gpus'
  | 'workers'
  | 'threads'
  | 'spill_threshold'
  | 'pool'
  | 'spilling'
  | 'share'
>;

/** Bytes, a fraction of the memory, text such as "20GB", or none. */
export type Amount = IClusterSpec['pool'];

/** What a form sends: text that is no number is for the server to refuse. */
export type SpecRequest = {
  [Name in keyof IClusterSpec]?: IClusterSpec[Name] | string;
};

/** A kernel's cluster. */
export type ICluster = Omit<Schemas['ClusterInfo'], 'spec'> & {
  spec: IClusterSpec;
};

export type ClusterStatus = ICluster['status'];

/** A spec that the administrator has given a name. */
export type IProfile = Omit<Schemas['Profile'], 'spec'> & {
  spec: IClusterSpec;
};

/** The profiles, and the spec of a cluster for which nothing is said. */
export type IProfileList = { profiles: IProfile[]; default: IClusterSpec };

/** Why a request was refused. */
export type IProblem = Schemas['Problem'];

/** A GPU at one moment of the past. */
export type IGpuMetrics = Pick<
  Schemas['GpuMetrics'],
  'utilization' | 'memory_used' | 'nvlink' | 'pcie'
>;

/** A worker at one moment of the past. */
export type IWorkerMetrics = Pick<
  Schemas['WorkerMetrics'],
  'pool_used' | 'spilled_to_host' | 'spilled_to_disk' | 'memory' | 'executed'
>;

/** All metrics of one moment; GPUs by UUID, workers by kernel id and name. */
export type ISample = Pick<Schemas['Sample'], 'time'> & {
  gpus: { [uuid: string]: IGpuMetrics };
  workers: { [kernelId: string]: { [name: string]: IWorkerMetrics } };
};

/** One message of the stream: everything, or what has changed. */
export type IStreamMessage = Omit<
  Schemas['StreamMessage'],
  'gpus' | 'clusters' | 'history'
> & {
  gpus: IGpuList | null;
  clusters: ICluster[];
  history: ISample[];
};
