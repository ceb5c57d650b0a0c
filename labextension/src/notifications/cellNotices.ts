/**
 * Desktop notifications for long cells that end while the page is hidden.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification as Toast } from '@jupyterlab/apputils';
import {
  INotebookTracker,
  Notebook,
  NotebookActions
} from '@jupyterlab/notebook';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { formatDuration } from '../format';
import { IGpuDask } from '../tokens';

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
    if (this._isEnabled && !this._hasAsked && permission() === 'default') {
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
      this._show(notebook, seconds, success);
    }
  }

  private _show(notebook: Notebook, seconds: number, success: boolean): void {
    const panel = this._tracker.find(({ content }) => content === notebook);
    if (!panel || permission() !== 'granted') {
      return;
    }
    const { trans } = this._gpuDask;
    const { label } = panel.title;
    const other = this._tracker.find(
      each => each !== panel && each.title.label === label
    );
    const name = other ? panel.context.path : label;
    const notice = new Notification(
      success
        ? trans.__('%1: a cell has finished', name)
        : trans.__('%1: a cell has failed', name),
      {
        body: trans.__('After %1', formatDuration(seconds, trans)),
        // A later notification of the same notebook replaces it.
        tag: panel.id
      }
    );
    notice.onclick = () => {
      window.focus();
      this._shell.activateById(panel.id);
      notice.close();
    };
  }

  private async _requestPermission(): Promise<void> {
    this._hasAsked = true;
    const answer =
      permission() === 'default'
        ? await Notification.requestPermission()
        : permission();
    if (answer === 'denied') {
      Toast.warning(
        // JupyterLab truncates messages after 140 characters.
        this._gpuDask.trans.__(
          'The browser blocks desktop notifications of this page. Allow them for this site; it needs HTTPS or localhost.'
        )
      );
    }
  }

  private _isDisposed = false;
  private _wasEnabled = false;
  private _hasAsked = false;
  /** When each notebook's last cell ended, and when each cell was run, in milliseconds. */
  private readonly _lastEnds = new WeakMap<Notebook, number>();
  private readonly _scheduled = new WeakMap<object, number>();
}

/** Whether the browser permits notifications; a page without HTTPS may have no such interface. */
function permission(): NotificationPermission {
  return 'Notification' in window ? Notification.permission : 'denied';
}
