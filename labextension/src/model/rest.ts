/**
 * A client of the server extension's REST interface.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import {
  ICluster,
  IClusterSpec,
  IHistoryPart,
  IProblem,
  IPresetList,
  mayHaveGpus,
  SpecRequest
} from './api';

/** The path of the REST interface below the server's base URL. */
export const API = 'gpudask/api';

/** An option of a cluster. */
export interface IOptionSchema {
  /** The label; empty for an option that the form does not have. */
  title: string;
  description: string;
  type?: string;
  enum?: string[];
  anyOf?: { type?: string }[];
  'x-option': {
    /** How it is typed in a notebook. */
    flag: string;
    /** The valid values, in words. */
    allowed: string;
    /** Words that are valid values. */
    words: string[];
    /** The engine, `cuda` or `cpu`, that alone has it; else empty. */
    engine: string;
  };
}

/** A response with an error status. */
export class ResponseError extends Error {
  /**
   * @param status - the HTTP status
   * @param problem - the body of the response
   */
  constructor(
    readonly status: number,
    readonly problem: IProblem
  ) {
    super(problem.message);
  }
}

/** Its methods throw `ResponseError` for an error status, and `ServerConnection.NetworkError` without a response. */
export class RestClient {
  constructor(readonly settings: ServerConnection.ISettings) {}

  /** The presets and the default cluster options. */
  async presets(): Promise<IPresetList> {
    return (await this._request('presets')).json();
  }

  /** The options of a cluster by name, from the server's OpenAPI description. */
  async options(): Promise<{ [name: string]: IOptionSchema }> {
    const { components } = await (await this._request('openapi.json')).json();
    return components.schemas.ClusterOptions.properties;
  }

  /** The clusters of the server. */
  async clusters(): Promise<ICluster[]> {
    return (await (await this._request('clusters')).json()).clusters;
  }

  /** The cluster of a kernel, with its state read now. */
  async cluster(kernelId: string): Promise<ICluster> {
    return (await this._request(clusterPath(kernelId))).json();
  }

  /** Start a cluster; resolves while it is starting. */
  async create(kernelId: string, spec: SpecRequest = {}): Promise<ICluster> {
    const body = { kernel_id: kernelId, spec };
    return (await this._request('clusters', 'POST', body)).json();
  }

  /** Start a cluster with the default options; if these ask for all GPUs, on those that no cluster has reserved. */
  async start(kernelId: string): Promise<ICluster> {
    return this.create(kernelId, await this.defaults());
  }

  /** What `start` asks for. */
  async defaults(): Promise<SpecRequest> {
    return defaultRequest((await this.presets()).default);
  }

  /** Stop a cluster; resolves when it is closed. */
  async stop(kernelId: string): Promise<void> {
    await this._request(clusterPath(kernelId), 'DELETE');
  }

  /** Carry out a verb of a cluster: `restart`, `scale`, `adapt`, `release` or `keep`. */
  async act(kernelId: string, verb: string, body?: object): Promise<ICluster> {
    const path = clusterPath(kernelId, verb);
    return (await this._request(path, 'POST', body)).json();
  }

  /** The metrics and cells of the last seconds, at most a day. */
  async history(seconds: number): Promise<IHistoryPart> {
    return (await this._request(`history?seconds=${seconds}`)).json();
  }

  /** The last lines of the logs of the supervisor and of each worker, by name. */
  async logs(kernelId: string): Promise<{ [worker: string]: string }> {
    const reply = await this._request(clusterPath(kernelId, 'logs'));
    return (await reply.json()).logs;
  }

  /** Fetch a URL of the server, such as a page of a dashboard. */
  async fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const reply = await ServerConnection.makeRequest(url, init, this.settings);
    if (!reply.ok) {
      throw new ResponseError(reply.status, await readProblem(reply));
    }
    return reply;
  }

  private async _request(
    path: string,
    method = 'GET',
    body?: object
  ): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, API, path);
    return this.fetch(url, { method, body: body && JSON.stringify(body) });
  }
}

function clusterPath(kernelId: string, action = ''): string {
  return URLExt.join('clusters', encodeURIComponent(kernelId), action);
}

/** Read the body of an error response; that of a proxy may not be JSON. */
async function readProblem(reply: Response): Promise<IProblem> {
  const empty = { message: reply.statusText, fix: '', kind: '', field: '' };
  try {
    return { ...empty, ...(await reply.json()) };
  } catch {
    return empty;
  }
}

/** The request for a cluster with the default options: on the free GPUs where these ask for all. */
export function defaultRequest({
  gpus,
  engine,
  share,
  preset
}: IClusterSpec): SpecRequest {
  const isAll = gpus === 'all' && mayHaveGpus(engine) && !share && !preset;
  return isAll ? { gpus: 'free' } : {};
}
