/**
 * A fake server for WebSockets and requests, and objects like those that it sends.
 */
import { ServerConnection } from '@jupyterlab/services';
import { framePromise } from '@jupyterlab/testing';

import { IOffer } from '../dialogs/startOptions';
import openapi from '../../openapi.json';
import { ICluster, IErrorDetails, IGpu, IStreamMessage } from '../model/api';

/** A WebSocket that the test controls. */
export class FakeSocket {
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  isClosed = false;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }

  /** Deliver a message to the client. */
  send(message: Partial<IStreamMessage>): void {
    this.onmessage?.({ data: JSON.stringify({ ...EMPTY, ...message }) });
  }

  /** Close the connection from the side of the server. */
  break(): void {
    this.onclose?.();
  }

  close(): void {
    this.isClosed = true;
  }

  static all: FakeSocket[] = [];

  static get last(): FakeSocket {
    return FakeSocket.all[FakeSocket.all.length - 1];
  }
}

const EMPTY: IStreamMessage = {
  type: 'full',
  time: 1000,
  gpus: { gpus: [], waiting: [], reason: '', fix: '', error: null },
  clusters: [],
  removed: [],
  memory_total: 256 * 2 ** 30,
  history: []
};

/** A request to the server. */
export interface IRequest {
  method: string;
  url: string;
  body: unknown;
}

/** Settings of a server with a base URL that replies to each request with `reply`. */
export function settingsOf(
  reply: (request: IRequest) => Response | Promise<Response>
): ServerConnection.ISettings {
  return ServerConnection.makeSettings({
    baseUrl: 'http://server/user/ada/',
    wsUrl: 'ws://server/user/ada/',
    token: 'secret',
    appendToken: true,
    fetch: (async (input: Request) =>
      reply({
        method: input.method,
        // Remove the parameter that bypasses caches.
        url: input.url.replace(/\?\d+$/, ''),
        body: JSON.parse((await input.text()) || 'null')
      })) as unknown as ServerConnection.ISettings['fetch'],
    WebSocket: FakeSocket as unknown as typeof WebSocket
  });
}

/** Wait until all views are rendered; those of the panel are loaded first. */
export async function rendered(): Promise<void> {
  await import('../panel/views');
  for (let frame = 0; frame < 8; frame += 1) {
    await framePromise();
  }
  const views = '.jp-GpuDask .jp-GpuDask-live';
  const isEmpty = (): boolean =>
    [...document.querySelectorAll(views)].some(each => !each.hasChildNodes());
  for (let frame = 0; frame < 100 && isEmpty(); frame += 1) {
    await framePromise();
  }
}

export const GIB = 2 ** 30;

export function gpu(changes: Partial<IGpu> = {}): IGpu {
  return {
    index: 0,
    uuid: 'GPU-0',
    name: 'NVIDIA H200',
    memory_total: 140 * GIB,
    memory_used: 41 * GIB,
    utilization: 78,
    temperature: 46,
    power: 191,
    holders: [],
    users: [],
    hidden_use: false,
    ...changes
  };
}

/** The options of a cluster, as the server describes them. */
export const OPTIONS: IOffer['schema'] =
  openapi.components.schemas.ClusterOptions.properties;

/** What the server answers to the requests of the start dialog. */
export function offer(): string {
  const { components } = openapi;
  return JSON.stringify({ presets: [], default: cluster().spec, components });
}

/** An error of the catalog. */
export function details(changes: Partial<IErrorDetails>): IErrorDetails {
  const none = { fix: '', fields: {}, labels: {}, field: '', actions: [] };
  return { code: 'an-error', reason: '', ...none, ...changes };
}

export function cluster(changes: Partial<ICluster> = {}): ICluster {
  return {
    kernel_id: 'kernel-1',
    name: 'analysis.ipynb',
    notebooks: ['work/analysis.ipynb'],
    status: 'ready',
    reason: '',
    fix: '',
    error: null,
    log: '',
    spec: {
      engine: 'auto',
      gpus: 'all',
      workers: null,
      threads: null,
      spill_threshold: 0.8,
      pool: null,
      spilling: 'dask',
      share: false,
      wait: false,
      memory_limit: 'auto',
      protocol: 'unix',
      adapt: null,
      resources: {},
      environment: {},
      start_timeout: 120,
      dashboard: false,
      preset: ''
    },
    reserved_gpus: [],
    since: 1000,
    workers_ready: 1,
    workers_total: 1,
    notes: [],
    place: 0,
    wanted_by: '',
    given_over_at: null,
    engine: 'cuda',
    cpu_reason: '',
    gpus: ['GPU-0'],
    pid: 100,
    dashboard: 'gpudask/dashboard/kernel-1/',
    joined: '',
    limits: {},
    automatic: false,
    busy: false,
    cells: [],
    state: {
      engine: 'cuda',
      status: 'ready',
      time: 1000,
      tasks_unfinished: 10,
      work: { tasks: 10, blocks: 144, done: 23, seconds_left: 50 },
      workers_wanted: 1,
      gpus: ['GPU-0'],
      result_bytes: 0,
      worker_exits: [],
      lost_hosts: [],
      jobs: [],
      others_unfinished: null,
      adaptive_range: null,
      seconds_without_workers: null,
      closes_at: null,
      workers: [
        {
          name: '0',
          pid: 101,
          gpu_index: 0,
          gpu_uuid: 'GPU-0',
          utilization: 78,
          device_memory_used: 62 * GIB,
          device_memory_total: 140 * GIB,
          pool_used: 8 * GIB,
          pool_size: 10 * GIB,
          spilled_to_host: 2 * GIB,
          spilled_to_disk: GIB,
          memory: GIB,
          cpu: 42,
          threads: 1,
          executing: 4,
          waiting: 1,
          executed: 20,
          polars: false,
          result_bytes: 0,
          out_of_memory: 0,
          status: 'running',
          host: '127.0.0.1',
          others: null
        }
      ]
    },
    ...changes
  };
}
