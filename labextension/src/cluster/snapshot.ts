/**
 * The state of a cluster, from which every view is rendered: the toolbar, the card, the status bar, the list of running
 * clusters, the tabs with plots and the notifications.
 */
import { LabIcon, runIcon, settingsIcon } from '@jupyterlab/ui-components';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReadonlyJSONObject } from '@lumino/coreutils';

import { CommandIDs } from '../commandIDs';
import { endReason, ISentences } from '../errors';
import { formatCount, formatDuration, percentage, sum } from '../format';
import {
  ICluster,
  IGpu,
  IProblem,
  isShared,
  IWorker,
  mayHaveGpus,
  SpecRequest
} from '../model/api';
import { IGpuDask } from '../tokens';
import { freedGpus, freeText, reservedReason } from './reservedGpus';

/** A button. */
export interface IAction {
  command: string;
  label: string;
  icon: LabIcon;
  /** Its arguments, besides the kernel. */
  args?: ReadonlyJSONObject;
}

/** What is done of the work in progress. */
export interface IProgress {
  percent: number;
  /** "23 of 144 blocks"; a task counts as one block, unless several were fused into it. */
  done: string;
  /** "about 50 s left"; empty while that is not known. */
  left: string;
}

export interface ISnapshot {
  /** Selects the icon and the style. */
  kind: 'off' | 'starting' | 'ready' | 'on-cpu' | 'closing' | 'failed';
  /** The state: "ready". */
  state: string;
  /** The hardware: "2 × H200"; empty if not known yet. */
  engine: string;
  /** The hardware of a cluster that is ready, else the state. */
  short: string;
  /** Null while nothing is computed. */
  progress: IProgress | null;
  /** The GPUs of this machine on which it has workers. */
  gpus: IGpu[];
  /** Why it has ended, and what to do; or why it uses the CPU. */
  reason: ISentences;
  /** Why it did not start, as long as that holds; it has a field if another value of that could start it. */
  problem: IProblem | null;
  /** What starts it again, after its end; the best first. */
  starts: IAction[];
}

interface IStart {
  command: string;
  /** The options that are changed. */
  spec: SpecRequest;
  label: (trans: TranslationBundle) => string;
}

/** The commands that start a cluster again with other options, by the action of the error that ended it. */
export const STARTS: { [action: string]: IStart } = {
  'start-on-free': {
    command: CommandIDs.startOnFree,
    spec: { gpus: 'free' },
    label: trans => trans.__('Start on the free GPUs')
  },
  share: {
    command: CommandIDs.startSharing,
    spec: { share: true },
    label: trans => trans.__('Share GPUs')
  },
  wait: {
    command: CommandIDs.startWaiting,
    spec: { wait: true },
    label: trans => trans.__('Wait for GPUs')
  },
  'use-cpu': {
    command: CommandIDs.startOnCpu,
    spec: { engine: 'cpu' },
    label: trans => trans.__('Start on the CPU')
  }
};

/** The state of the cluster of a kernel, which may have none. */
export function snapshot(
  cluster: ICluster | undefined,
  { model, trans }: Pick<IGpuDask, 'model' | 'trans'>
): ISnapshot {
  const gpus = model.gpus?.gpus ?? [];
  const off = {
    kind: 'off' as const,
    state: trans.__('off'),
    engine: '',
    short: trans.__('off'),
    progress: null,
    gpus: [],
    reason: { message: '', fix: '' },
    problem: null,
    starts: []
  };
  if (!cluster) {
    return off;
  }
  const [kind, state] = stateOf(cluster, trans);
  const hasEnded = kind === 'off' || kind === 'failed';
  const engine = hasEnded ? '' : engineName(cluster, gpus, trans);
  const active = activeGpus(cluster);
  const common = {
    kind,
    state,
    engine,
    short: cluster.status === 'ready' ? engine : state,
    progress: progressOf(cluster, trans),
    gpus: gpus.filter(({ uuid }) => active.includes(uuid))
  };
  if (!hasEnded) {
    return {
      ...off,
      ...common,
      // The section of the GPUs says it already.
      reason: {
        message:
          cluster.cpu_reason === model.gpus?.reason ? '' : cluster.cpu_reason,
        fix: ''
      }
    };
  }
  const freed = freedGpus(cluster, model.gpus);
  if (freed.length > 0) {
    const reason = { message: freeText(freed, trans), fix: '' };
    return { ...off, ...common, reason, starts: startsOf([], false, trans) };
  }
  const reason = {
    ...endReason(cluster, trans),
    ...reservedReason(cluster, model, trans)
  };
  const { field = '', actions: all = [] } = cluster.error ?? {};
  // Free GPUs may have been reserved since; and who shares none cannot be shared with.
  const isNoneFree =
    gpus.length > 0 && gpus.every(({ holders }) => holders.length > 0);
  const isUnshared = gpus
    .filter(({ uuid }) => cluster.reserved_gpus.includes(uuid))
    .some(({ holders }) => holders.some(({ share }) => !share));
  const actions = all.filter(
    each =>
      (each !== 'start-on-free' || !isNoneFree) &&
      (each !== 'share' || !isUnshared)
  );
  const problem = hasStarted(cluster) ? null : { ...reason, kind: '', field };
  const starts = startsOf(actions, Boolean(problem?.field), trans);
  const isBusy = cluster.reserved_gpus.length > 0;
  const others =
    isBusy && !isShared(cluster.kernel_id)
      ? sharedActions({ model, trans })
      : [];
  return { ...common, reason, problem, starts: [...others, ...starts] };
}

/** What connects a notebook to each shared cluster that is ready. */
export function sharedActions({
  model,
  trans
}: Pick<IGpuDask, 'model' | 'trans'>): (IAction & {
  args: ReadonlyJSONObject;
})[] {
  return [...model.clusters.values()]
    .filter(
      ({ kernel_id, status }) => isShared(kernel_id) && status === 'ready'
    )
    .map(({ kernel_id: shared, name }) => ({
      command: CommandIDs.useShared,
      label: trans.__('Use %1', name),
      icon: runIcon,
      args: { shared }
    }));
}

/** The reason as a text. */
export function reasonText({ reason }: ISnapshot): string {
  return `${reason.message} ${reason.fix}`.trim();
}

function stateOf(
  cluster: ICluster,
  trans: TranslationBundle
): [ISnapshot['kind'], string] {
  const { workers_ready: ready, workers_total: total, joined } = cluster;
  switch (cluster.status) {
    case 'starting':
      return [
        'starting',
        cluster.place > 0
          ? trans.__('in line, place %1', cluster.place)
          : total > 0
            ? trans.__('starting %1 of %2', ready, total)
            : trans.__('starting')
      ];
    case 'ready':
      return joined
        ? ['ready', trans.__('connected')]
        : [mayHaveGpus(cluster.engine) ? 'ready' : 'on-cpu', trans.__('ready')];
    case 'closing':
      return ['closing', trans.__('stopping')];
    case 'closed':
      return ['off', trans.__('stopped')];
    case 'failed':
      return ['failed', trans.__('failed')];
  }
}

/** What is done of the work of a cluster; null if there is none. */
export function progressOf(
  { status, state }: ICluster,
  trans: TranslationBundle
): IProgress | null {
  const { tasks, blocks, done, seconds_left: left } = state?.work ?? NO_WORK;
  if (status !== 'ready' || !state?.tasks_unfinished || done >= blocks) {
    return null;
  }
  const counts = [done, blocks].map(formatCount);
  return {
    percent: Math.floor(percentage(done, blocks)),
    done:
      blocks > tasks
        ? trans.__('%1 of %2 blocks', ...counts)
        : trans.__('%1 of %2 tasks', ...counts),
    left:
      left === null
        ? ''
        : trans.__('about %1 left', formatDuration(left, trans))
  };
}

const NO_WORK = { tasks: 0, blocks: 0, done: 0, seconds_left: null };

/** The CPU, or the number and model of the GPUs. */
function engineName(
  cluster: ICluster,
  gpus: IGpu[],
  trans: TranslationBundle
): string {
  if (cluster.joined) {
    return cluster.joined;
  }
  if (!mayHaveGpus(cluster.engine)) {
    return trans.__('CPU cluster');
  }
  const held = cluster.gpus.length;
  if (held === 0) {
    return '';
  }
  const used = activeGpus(cluster).length;
  const count = used < held ? trans.__('%1 of %2', used, held) : `${held}`;
  const names = new Set(
    gpus
      .filter(({ uuid }) => cluster.gpus.includes(uuid))
      .map(each => modelOf(each).replace(/^NVIDIA\s+/, ''))
  );
  const [name] = names;
  return names.size === 1
    ? trans.__('%1 × %2', count, name)
    : trans._n('%2 GPU', '%2 GPUs', held, count);
}

/** The model of a GPU without its memory, which the section of the GPUs has: names need the room. */
export function modelOf({ name }: IGpu): string {
  return name.replace(/[- ]\d+GB( HBM\w*)?/, '');
}

/** The UUIDs of the GPUs that have a worker: after scaling down, fewer than the cluster has. */
export function activeGpus(cluster: ICluster): string[] {
  const used = cluster.status === 'ready' ? (cluster.state?.gpus ?? []) : [];
  return used.length > 0 ? used : cluster.gpus;
}

/** The GPUs on which the current notebook's cluster has workers. */
export function currentGpus(gpuDask: IGpuDask): IGpu[] {
  const { model, current } = gpuDask;
  return snapshot(model.clusters.get(current.kernelId ?? ''), gpuDask).gpus;
}

function hasStarted(cluster: ICluster): boolean {
  const { status, workers_ready: ready, workers_total: total } = cluster;
  return status !== 'failed' || (total > 0 && ready === total);
}

/** What the error offers, or else the same again; and other options, which come first if these were refused. */
function startsOf(
  actions: string[],
  isRefused: boolean,
  trans: TranslationBundle
): IAction[] {
  const offered = actions
    .filter(action => action in STARTS)
    .map(action => ({
      command: STARTS[action].command,
      label: STARTS[action].label(trans),
      icon: runIcon
    }));
  const options = {
    command: CommandIDs.startWithOptions,
    label: isRefused ? trans.__('Change options…') : trans.__('Options…'),
    icon: settingsIcon
  };
  if (offered.length > 0) {
    return [...offered, options];
  }
  const again = {
    command: CommandIDs.restart,
    label: trans.__('Start again'),
    icon: runIcon
  };
  return isRefused ? [options, again] : [again, options];
}

/** The size of the results that clients keep on the workers, in bytes. */
export function resultBytes(cluster: ICluster): number {
  return cluster.status === 'ready' ? (cluster.state?.result_bytes ?? 0) : 0;
}

/** The bytes that a worker has spilled to host memory and to disk. */
export function spilledBytes(
  worker: Pick<IWorker, 'spilled_to_host' | 'spilled_to_disk'>
): number {
  return sum([worker.spilled_to_host, worker.spilled_to_disk]);
}

/** The numbers of running and of waiting tasks. */
export function taskCounts(cluster: ICluster): {
  running: number;
  waiting: number;
} {
  const { workers = [], tasks_unfinished: unfinished = 0 } =
    cluster.state ?? {};
  const running = sum(workers.map(worker => worker.executing));
  return { running, waiting: Math.max(0, unfinished - running) };
}
