/**
 * The REST interface of the server extension.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { ICluster, IProblem, IProfileList, SpecRequest } from './api';

/** Where the interface is, after the server's base URL. */
export const API = 'gpudask/api';

/** Where Dask's dashboards are, after the server's base URL. */
export const DASHBOARDS = 'gpudask/dashboard';

/** A plot that Dask offers, by its title and its path in the dashboard. */
export interface IPlot {
  title: string;
  path: string;
}

/** A request that the server refused, with its reason. */
export class RefusedError extends Error {
  /**
   * @param status - the HTTP status
   * @param problem - what the server says about it
   */
  constructor(
    readonly status: number,
    readonly problem: IProblem
  ) {
    super(problem.message);
  }
}

/** Asks the server; refusals are `RefusedError`, a dead line is `ServerConnection.NetworkError`. */
export class RestClient {
  constructor(readonly settings: ServerConnection.ISettings) {}

  /** The profiles, and the options of a cluster for which nothing is said. */
  async profiles(): Promise<IProfileList> {
    return (await this._request('profiles')).json();
  }

  /** Those of this server. */
  async clusters(): Promise<ICluster[]> {
    return (await (await this._request('clusters')).json()).clusters;
  }

  /** That of a kernel, with what it does now. */
  async cluster(kernelId: string): Promise<ICluster> {
    return (await this._request(clusterPath(kernelId))).json();
  }

  /** Order a cluster; it is starting when this returns. */
  async create(
    kernelId: string,
    spec: SpecRequest = {},
    profile = ''
  ): Promise<ICluster> {
    const body = { kernel_id: kernelId, spec, profile };
    return (await this._request('clusters', 'POST', body)).json();
  }

  /** Close a cluster; it is gone when this returns. */
  async stop(kernelId: string): Promise<void> {
    await this._request(clusterPath(kernelId), 'DELETE');
  }

  /** Order a new one in its place. */
  async restart(kernelId: string, spec: SpecRequest = {}): Promise<ICluster> {
    const path = clusterPath(kernelId, 'restart');
    return (await this._request(path, 'POST', { spec })).json();
  }

  /** Have so many workers. */
  async scale(kernelId: string, workers: number): Promise<ICluster> {
    const path = clusterPath(kernelId, 'scale');
    return (await this._request(path, 'POST', { workers })).json();
  }

  /** The last lines of the logs, by the name of the worker. */
  async logs(kernelId: string): Promise<{ [worker: string]: string }> {
    const reply = await this._request(clusterPath(kernelId, 'logs'));
    return (await reply.json()).logs;
  }

  /** The plots that Dask offers for a cluster, by title. */
  async plots(kernelId: string): Promise<IPlot[]> {
    const url = URLExt.join(
      this.settings.baseUrl,
      DASHBOARDS,
      encodeURIComponent(kernelId),
      'individual-plots.json'
    );
    const paths: { [title: string]: string } = await (
      await this._fetch(url)
    ).json();
    return Object.entries(paths)
      .map(([title, path]) => ({
        title: title
          .replace(/^Individual /, '')
          .replace(/\b(Cpu|Gpu|Rmm)\b/g, word => word.toUpperCase()),
        path
      }))
      .sort((one, other) => one.title.localeCompare(other.title));
  }

  private async _request(
    path: string,
    method = 'GET',
    body?: object
  ): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, API, path);
    return this._fetch(url, { method, body: body && JSON.stringify(body) });
  }

  private async _fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const reply = await ServerConnection.makeRequest(url, init, this.settings);
    if (!reply.ok) {
      throw new RefusedError(reply.status, await readProblem(reply));
    }
    return reply;
  }
}

function clusterPath(kernelId: string, action = ''): string {
  return URLExt.join('clusters', encodeURIComponent(kernelId), action);
}

/** What the server says; a proxy in between may answer without a word of ours. */
async function readProblem(reply: Response): Promise<IProblem> {
  const nothing = { message: reply.statusText, fix: '', kind: '', field: '' };
  try {
    return { ...nothing, ...(await reply.json()) };
  } catch {
    return nothing;
  }
}
