/**
 * What the server sends and takes: the models in `jupyter_gpudask/models/`, field for field.
 *
 * All sizes are bytes and all times seconds since the epoch; a figure that cannot be had is null.
 */

/** A process that has a CUDA context on a GPU. */
export interface IGpuUser {
  pid: number;
  name: string | null;
  user: string | null;
  memory: number | null;
  /** The kernel to whose cluster it belongs; null for a foreign process. */
  kernel_id: string | null;
}

/** A cluster that holds a GPU. */
export interface IGpuHolder {
  name: string;
  kernel_id: string | null;
  share: boolean;
}

/** A GPU, who holds it, and who uses it. */
export interface IGpu {
  index: number;
  uuid: string;
  name: string;
  memory_total: number | null;
  memory_used: number | null;
  /** In percent. */
  utilization: number | null;
  /** In degrees Celsius. */
  temperature: number | null;
  /** In watts. */
  power: number | null;
  holders: IGpuHolder[];
  users: IGpuUser[];
}

/** The GPUs of the machine; `reason` says why there are none or fewer than there were. */
export interface IGpuList {
  gpus: IGpu[];
  reason: string;
  fix: string;
}

export type Engine = 'cuda' | 'cpu';

export type ClusterStatus =
  'starting' | 'ready' | 'closing' | 'closed' | 'failed';

/** Bytes, a fraction of the memory, text such as "20GB", or none. */
export type Amount = number | string | null;

/** The options of a cluster. */
export interface IClusterSpec {
  engine: 'auto' | Engine;
  gpus: 'all' | number | string | (number | string)[];
  /** Of the CPU stand-in. */
  workers: number | null;
  threads: number | null;
  spill_threshold: Amount;
  pool: Amount;
  spilling: 'dask' | 'cudf' | 'off';
  share: boolean;
}

/** What a form sends: text that is no number is for the server to refuse. */
export type SpecRequest = {
  [Name in keyof IClusterSpec]?: IClusterSpec[Name] | string;
};

/** What a worker does. */
export interface IWorker {
  name: string;
  pid: number | null;
  gpu_index: number | null;
  gpu_uuid: string | null;
  utilization: number | null;
  device_memory_used: number | null;
  device_memory_total: number | null;
  pool_used: number | null;
  pool_size: number | null;
  spilled_to_host: number | null;
  spilled_to_disk: number | null;
  /** Host memory. */
  memory: number | null;
  threads: number;
  executing: number;
  waiting: number;
  /** Dask's word. */
  status: string;
}

/** What a cluster does. */
export interface IClusterState {
  engine: Engine;
  status: 'starting' | 'ready' | 'closing' | 'closed';
  time: number;
  workers: IWorker[];
  tasks_waiting: number;
  /** All that are still to be done, those that run among them. */
  tasks_unfinished: number;
}

/** A kernel's cluster. */
export interface ICluster {
  kernel_id: string;
  name: string;
  notebooks: string[];
  status: ClusterStatus;
  reason: string;
  fix: string;
  log: string;
  spec: IClusterSpec;
  since: number;
  workers_ready: number;
  workers_total: number;
  engine: Engine | null;
  /** Why the CPU stands in for GPUs, or empty. */
  stand_in: string;
  gpus: string[];
  pid: number | null;
  /** After the server's base URL. */
  dashboard: string | null;
  state: IClusterState | null;
}

/** A spec that the administrator has given a name. */
export interface IProfile {
  name: string;
  title: string;
  spec: IClusterSpec;
}

export interface IProfileList {
  profiles: IProfile[];
  default: IClusterSpec;
}

/** Why a request was refused. */
export interface IProblem {
  message: string;
  fix: string;
  kind: string;
  /** The field that is wrong, if it is one. */
  field: string;
}

/** A GPU at one moment of the past. */
export interface IGpuFigures {
  utilization: number | null;
  memory_used: number | null;
}

/** A worker at one moment of the past. */
export interface IWorkerFigures {
  pool_used: number | null;
  spilled_to_host: number | null;
  spilled_to_disk: number | null;
  memory: number | null;
  /** How many tasks it has run since it was started. */
  executed: number | null;
}

/** All figures of one moment; GPUs by UUID, workers by kernel id and name. */
export interface ISample {
  time: number;
  gpus: { [uuid: string]: IGpuFigures };
  workers: { [kernelId: string]: { [name: string]: IWorkerFigures } };
}

/** One message of the stream: everything, or what has changed. */
export interface IStreamMessage {
  type: 'full' | 'changes';
  time: number;
  /** Null where nothing about them has changed. */
  gpus: IGpuList | null;
  clusters: ICluster[];
  /** Kernels whose cluster is forgotten. */
  removed: string[];
  history: ISample[];
}
