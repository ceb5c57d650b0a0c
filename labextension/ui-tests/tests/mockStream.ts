/**
 * A simulated stream, for states and sizes that a test machine does not have.
 */
import { Page, WebSocketRoute } from '@playwright/test';

const GIB = 2 ** 30;

/** The time of the first message, in seconds since the epoch; it is not shown. */
const START = Date.UTC(2026, 0, 1, 12) / 1000;

/** The state that a simulated stream reports. */
export interface IScene {
  gpus: number;
  /** The number of workers; null for no cluster. */
  workers: number | null;
  /** Changes of the cluster. */
  cluster?: object;
  /** Changes of each GPU. */
  gpu?: object;
  /** Changes of the list of GPUs. */
  gpuList?: object;
  /** Whether the connection is lost after the first message, and cannot be restored. */
  isLost?: boolean;
  /** Whether the server sends nothing more. */
  isSilent?: boolean;
}

/** An error of the catalog, as the server sends it. */
function error(
  code: string,
  reason: string,
  fix: string,
  more: object = {}
): object {
  const none = { fields: {}, labels: {}, field: '', actions: [] };
  return { code, reason, fix, ...none, ...more };
}

const NOT_STARTED = {
  status: 'failed',
  log: '',
  workers_ready: 0,
  state: null,
  engine: null,
  gpus: []
};

/** Changes of a cluster that failed, by the code of its error. */
export const FAILED = {
  'process-silent': {
    ...NOT_STARTED,
    log: 'Traceback: …',
    error: error(
      'process-silent',
      "The cluster's main process did not respond within {limit} s.",
      'Type: %gpudask restart',
      { fields: { limit: '120' } }
    )
  },
  'gpus-reserved': {
    ...NOT_STARTED,
    error: error(
      'gpus-reserved',
      '{gpus}.',
      'Type %gpudask stop there or ask its user, start on the GPUs that are free with {--gpus free}, or start both clusters with {--share yes}.',
      {
        fields: { gpus: 'GPU 0 is reserved by other.ipynb' },
        labels: { '--gpus': 'GPUs', '--share': 'Share GPUs' },
        field: 'gpus',
        actions: ['start-on-free', 'share', 'wait']
      }
    )
  },
  'no-driver': {
    ...NOT_STARTED,
    error: error(
      'no-driver',
      'This machine has no NVIDIA driver.',
      'To run on the CPU, type: %gpudask start --cpu',
      { field: 'engine', actions: ['use-cpu'] }
    )
  }
};

/** A number between 0 and 1, the same in each run. */
function wave(time: number, number: number): number {
  return (1 + Math.sin(time / (9 + number) + number)) / 2;
}

function gpuMetrics(time: number, index: number): object {
  const busy = wave(time, index);
  return {
    utilization: Math.round(100 * busy),
    memory_used: Math.round((20 + 110 * wave(time / 3, index + 2)) * GIB),
    temperature: Math.round(40 + 30 * busy),
    power: Math.round(90 + 500 * busy),
    nvlink: Math.round(400 * wave(time, index + 1) * GIB),
    pcie: Math.round(20 * wave(time / 2, index) * GIB)
  };
}

function workerMetrics(time: number, index: number): object {
  return {
    device_memory_used: Math.round((20 + 100 * wave(time / 3, index)) * GIB),
    pool_used: Math.round(70 * wave(time / 2, index) * GIB),
    spilled_to_host: index % 4 === 1 ? 3 * GIB : 0,
    spilled_to_disk: 0,
    memory: Math.round((2 + wave(time, index)) * GIB),
    cpu: Math.round(100 * wave(time / 2, index + 1)),
    executing: 1 + (index % 4),
    waiting: Math.round(20 * wave(time, index)),
    executed: Math.round(20 * (time - START) + 40 * wave(time, index))
  };
}

function uuid(index: number): string {
  return `GPU-${index}`;
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** The name of a worker: that of its GPU, if each has its own. */
function workerName(scene: IScene, index: number): string {
  return scene.workers === scene.gpus ? uuid(index) : String(index);
}

function sample(scene: IScene, time: number): object {
  const workers = numbers(scene.workers ?? 0).map(index => [
    workerName(scene, index),
    workerMetrics(time, index)
  ]);
  return {
    time,
    gpus: Object.fromEntries(
      numbers(scene.gpus).map(index => [uuid(index), gpuMetrics(time, index)])
    ),
    workers: scene.workers ? { played: Object.fromEntries(workers) } : {},
    machine: {
      cpu: Math.round(40 + 50 * wave(time, 3)),
      memory_used: Math.round((200 + 300 * wave(time / 5, 4)) * GIB),
      disk: Math.round(3 * wave(time, 5) * GIB),
      network: 0
    }
  };
}

function gpuList(scene: IScene, time: number): object {
  const holder = { name: 'train.ipynb', kernel_id: 'played', share: false };
  const other = {
    pid: 812,
    name: 'trainer',
    user: 'ada',
    memory: 4 * GIB,
    kernel_id: null
  };
  return {
    gpus: numbers(scene.gpus).map(index => ({
      index,
      uuid: uuid(index),
      name: 'NVIDIA H200',
      memory_total: 140 * GIB,
      holders: scene.workers ? [holder] : [],
      users: index === 1 ? [other] : [],
      hidden_use: false,
      ...gpuMetrics(time, index),
      ...scene.gpu
    })),
    waiting: [],
    reason: '',
    fix: '',
    error: null,
    ...scene.gpuList
  };
}

function clusterOf(scene: IScene, time: number): object {
  const count = scene.workers ?? 0;
  const workers = numbers(count).map(index => ({
    name: workerName(scene, index),
    pid: 1000 + index,
    gpu_index: scene.gpus > 0 ? index % scene.gpus : null,
    gpu_uuid: scene.gpus > 0 ? uuid(index % scene.gpus) : null,
    utilization: scene.gpus > 0 ? Math.round(100 * wave(time, index)) : null,
    device_memory_total: 140 * GIB,
    pool_size: 80 * GIB,
    threads: 1,
    out_of_memory: 0,
    status: 'running',
    ...workerMetrics(time, index)
  }));
  return {
    kernel_id: 'played',
    name: 'train.ipynb',
    notebooks: ['train.ipynb'],
    status: 'ready',
    reason: '',
    fix: '',
    error: null,
    log: '',
    reserved_gpus: [],
    spec: {},
    since: START,
    workers_ready: count,
    workers_total: count,
    notes: [],
    engine: 'cuda',
    cpu_reason: '',
    gpus: numbers(scene.gpus).map(uuid),
    pid: 100,
    cells: [],
    dashboard: 'gpudask/dashboard/played/',
    limits: {},
    state: {
      engine: 'cuda',
      status: 'ready',
      time,
      workers,
      tasks_unfinished: 4096,
      workers_wanted: count,
      gpus: numbers(scene.gpus).map(uuid),
      result_bytes: 0,
      worker_exits: [],
      lost_hosts: [],
      jobs: [],
      adaptive_range: null,
      seconds_without_workers: null
    },
    ...scene.cluster
  };
}

/** Message `tick` of a scene; a full one has the history of `past` seconds. */
function message(scene: IScene, tick: number, past: number): string {
  const time = START + tick;
  return JSON.stringify({
    type: past > 1 ? 'full' : 'changes',
    time,
    gpus: gpuList(scene, time),
    clusters: scene.workers === null ? [] : [clusterOf(scene, time)],
    removed: [],
    memory_total: 1024 * GIB,
    history: numbers(past).map(back => sample(scene, time - (past - 1) + back))
  });
}

const NO_CHANGES = JSON.stringify({
  type: 'changes',
  time: START,
  gpus: null,
  clusters: [],
  removed: [],
  memory_total: 1024 * GIB,
  history: []
});

/** Replaces the scene in all streams of a page at once. */
export type ShowScene = (next: IScene) => void;

/**
 * Simulate each stream that the page opens from now on.
 *
 * @param page - the page
 * @param first - the state that the streams report first; streams with an interval follow its changes
 * @param interval - milliseconds between two messages; 0 for messages without changes, which say that the server is there
 */
export async function playScene(
  page: Page,
  first: IScene,
  interval = 0
): Promise<ShowScene> {
  let scene = first;
  const streams = new Map<WebSocketRoute, () => void>();
  await page.routeWebSocket(/gpudask\/api\/stream/, socket => {
    if (scene.isLost) {
      void socket.close();
      return;
    }
    const since = Number(new URL(socket.url()).searchParams.get('since'));
    const past = Math.ceil(Math.min(900, Date.now() / 1000 - since));
    const sendAll = (): void => {
      // The metrics of a scene before are dropped: they are older than any view shows.
      socket.send(message(scene, -10000, 2));
      socket.send(message(scene, 0, past));
    };
    streams.set(socket, sendAll);
    sendAll();
    let tick = 0;
    const timer = setInterval(() => {
      if (!interval && !scene.isSilent) {
        socket.send(NO_CHANGES);
      }
      if (interval) {
        tick += 1;
        socket.send(message(scene, tick, 1));
        if (scene.isLost) {
          void socket.close();
        }
      }
    }, interval || 1000);
    socket.onClose(() => {
      clearInterval(timer);
      streams.delete(socket);
    });
  });
  return next => {
    scene = next;
    for (const [socket, sendAll] of streams) {
      sendAll();
      if (scene.isLost) {
        void socket.close();
        streams.delete(socket);
      }
    }
  };
}
