/**
 * When notifications are shown: for events of clusters, and on the desktop for long cells that end while the page is hidden.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import {
  INotebookTracker,
  Notebook,
  NotebookActions
} from '@jupyterlab/notebook';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import type { IEndedCell } from './desktopNotice';
import type { Notifier } from './notifier';

/** The seconds after which a cell is a long one. */
const LONG = 60;

/** A cell of a notebook; cells are only compared. */
interface IRun {
  notebook: Notebook;
  cell: object;
}

/** The signals of `NotebookActions` that are used. */
interface IActions {
  executionScheduled: ISignal<unknown, IRun>;
  executed: ISignal<unknown, IRun & { success: boolean }>;
}

/** Shows a notification of the desktop for each long cell, if the user has enabled it and the browser permits it. */
export class CellNotices implements IDisposable {
  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _tracker: INotebookTracker,
    private readonly _shell: JupyterFrontEnd.IShell,
    actions: IActions = NotebookActions
  ) {
    actions.executionScheduled.connect(this._onScheduled, this);
    actions.executed.connect(this._onExecuted, this);
    const { settings } = _gpuDask.model;
    void settings.ready.then(() => {
      this._wasEnabled = this._isEnabled;
      settings.changed.connect(this._onSettings, this);
    });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private get _isEnabled(): boolean {
    return this._gpuDask.model.settings.value.desktopNotifications;
  }

  private _onSettings(): void {
    const isNew = this._isEnabled && !this._wasEnabled;
    this._wasEnabled = this._isEnabled;
    if (isNew) {
      void this._requestPermission();
    }
  }

  private _onScheduled(_: unknown, { cell }: IRun): void {
    this._scheduled.set(cell, Date.now());
    // An administrator may have enabled it; browsers ask only after an action of the user.
    if (
      this._isEnabled &&
      !this._hasAsked &&
      window.Notification?.permission === 'default'
    ) {
      void this._requestPermission();
    }
  }

  private _onExecuted(
    _: unknown,
    { notebook, cell, success }: IRun & { success: boolean }
  ): void {
    const now = Date.now();
    // A cell begins when the one before it ends: of several that are run together, all are scheduled at once.
    const begin = Math.max(
      this._scheduled.get(cell) ?? now,
      this._lastEnds.get(notebook) ?? 0
    );
    this._scheduled.delete(cell);
    this._lastEnds.set(notebook, now);
    const seconds = (now - begin) / 1000;
    if (this._isEnabled && document.hidden && seconds >= LONG) {
      void this._show({ notebook, seconds, success });
    }
  }

  private async _show(cell: IEndedCell): Promise<void> {
    const { showNotice } = await import('./desktopNotice');
    showNotice(cell, this._tracker, this._shell, this._gpuDask.trans);
  }

  private async _requestPermission(): Promise<void> {
    this._hasAsked = true;
    const { requestPermission } = await import('./desktopNotice');
    await requestPermission(this._gpuDask.trans);
  }

  private _isDisposed = false;
  private _wasEnabled = false;
  private _hasAsked = false;
  /** When each notebook's last cell ended, and when each cell was run, in milliseconds. */
  private readonly _lastEnds = new WeakMap<Notebook, number>();
  private readonly _scheduled = new WeakMap<object, number>();
}

/**
 * Show notifications for the events of clusters; before the first change there is nothing to notify of.
 *
 * @param gpuDask - the shared service
 * @param isPanelVisible - whether the panel is visible
 */
export function loadNotifier(
  gpuDask: IGpuDask,
  isPanelVisible: () => boolean
): void {
  const { model } = gpuDask;
  // The first states are no events; every later one is compared with them.
  let known: ICluster[] = [];
  const load = async (): Promise<Notifier | null> => {
    if (known.length === 0) {
      known = [...model.clusters.values()];
      return null;
    }
    model.changed.disconnect(onChanged);
    try {
      const { Notifier } = await import('./notifier');
      return new Notifier(gpuDask, isPanelVisible, known);
    } catch {
      // The server cannot be reached. The next change that it reports shows that it can.
      model.changed.connect(onChanged);
      return null;
    }
  };
  const onChanged = (): void => void load();
  model.changed.connect(onChanged);
}
