/**
 * The WebSocket connection to the server's stream.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { IStreamMessage } from './api';
import { API, ResponseError, RestClient } from './rest';

/** The status of the connection. */
export type ConnectionStatus =
  | { kind: 'closed' | 'connecting' | 'live' }
  /** `retryAt` is the time of the next attempt, in milliseconds since the epoch. */
  | { kind: 'lost'; retryAt: number }
  /** It is open, and the server, which sends a message each second, is silent since then. */
  | { kind: 'silent'; since: number }
  /** The server lacks the extension, or refuses this user: no automatic retry. */
  | { kind: 'no-server' | 'refused' };

/** The shortest and the longest delay before a retry, in milliseconds. */
const MIN_DELAY = 1000;
const MAX_DELAY = 30000;

/** After so many milliseconds without a message the server is silent, and later the connection is made again. */
const SILENCE = 5000;
const LONG_SILENCE = 30000;

/** How many seconds of metrics the panel shows. */
export const PANEL_SECONDS = 60;

/**
 * A connection that reconnects with exponential backoff between `open` and `close`.
 */
export class Connection implements IDisposable {
  /**
   * @param rest - the client of the server
   * @param _random - a random number in [0, 1), which spreads the retries of many browsers
   * @param history - how many seconds of past metrics to request first
   */
  constructor(
    readonly rest: RestClient,
    private readonly _random: () => number = Math.random,
    readonly history: number = PANEL_SECONDS
  ) {}

  get status(): ConnectionStatus {
    return this._status;
  }

  /** Whether what was received is not what is now. */
  get isStale(): boolean {
    return (
      this._newest !== null && !['live', 'closed'].includes(this._status.kind)
    );
  }

  readonly statusChanged = new Signal<this, ConnectionStatus>(this);
  /** Emitted with each message of the server. */
  readonly received = new Signal<this, IStreamMessage>(this);

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Connect, and reconnect when the connection is lost. */
  open(): void {
    if (this._status.kind === 'closed' && !this._isDisposed) {
      this._connect();
    }
  }

  /** Reconnect now. */
  retry(): void {
    if (this._status.kind !== 'closed' && this._status.kind !== 'live') {
      this._failures = 0;
      this._connect();
    }
  }

  /** Disconnect. */
  close(): void {
    this._drop();
    this._failures = 0;
    this._setStatus({ kind: 'closed' });
  }

  dispose(): void {
    if (!this._isDisposed) {
      this.close();
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  private _connect(): void {
    this._drop();
    if (this._status.kind !== 'silent') {
      this._setStatus({ kind: 'connecting' });
    }
    this._listen();
    const { settings } = this.rest;
    const socket = new settings.WebSocket(this._url());
    this._socket = socket;
    socket.onmessage = event => {
      this._failures = 0;
      this._heardAt = Date.now();
      this._listen();
      this._setStatus({ kind: 'live' });
      const message: IStreamMessage = JSON.parse(event.data);
      this._newest = message.time;
      this.received.emit(message);
    };
    socket.onclose = () => void this._onLost(socket);
  }

  /** Wait for the next message. */
  private _listen(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this._setStatus({ kind: 'silent', since: this._heardAt });
      const rest = LONG_SILENCE - SILENCE;
      this._timer = setTimeout(() => this._connect(), rest);
    }, SILENCE);
  }

  private _url(): string {
    const { settings } = this.rest;
    const since = this._newest ?? Date.now() / 1000 - this.history;
    const query: { [name: string]: string } = { since: String(since) };
    if (settings.appendToken && settings.token) {
      query.token = settings.token;
    }
    const url = URLExt.join(settings.wsUrl, API, 'stream');
    return url + URLExt.objectToQueryString(query);
  }

  private async _onLost(socket: WebSocket): Promise<void> {
    const reason = await this._findReason();
    if (this._socket !== socket) {
      return;
    }
    this._drop();
    if (reason) {
      this._setStatus({ kind: reason });
      return;
    }
    const limit = Math.min(MAX_DELAY, MIN_DELAY * 2 ** this._failures);
    const delay = limit * (0.5 + this._random() / 2);
    this._failures += 1;
    this._timer = setTimeout(() => this._connect(), delay);
    this._setStatus({ kind: 'lost', retryAt: Date.now() + delay });
  }

  /** Find why the connection was closed: a WebSocket has no HTTP status, so that a request asks for it. */
  private async _findReason(): Promise<'no-server' | 'refused' | null> {
    try {
      await this.rest.presets();
      return null;
    } catch (error) {
      const status = error instanceof ResponseError ? error.status : 0;
      return status === 404 ? 'no-server' : status === 403 ? 'refused' : null;
    }
  }

  private _drop(): void {
    clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  private _setStatus(status: ConnectionStatus): void {
    if (status.kind === this._status.kind && status.kind !== 'lost') {
      return;
    }
    this._status = status;
    this.statusChanged.emit(status);
  }

  private _failures = 0;
  private _heardAt = Date.now();
  private _isDisposed = false;
  private _newest: number | null = null;
  private _socket: WebSocket | null = null;
  private _status: ConnectionStatus = { kind: 'closed' };
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
