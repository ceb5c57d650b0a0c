/**
 * Which kernel is meant where none is named.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

/**
 * Follows the notebook or console that was used last, as long as it is open.
 */
export class CurrentKernel implements IDisposable {
  constructor(private readonly _shell: JupyterFrontEnd.IShell) {
    _shell.currentChanged?.connect(this._onCurrent, this);
    this._onCurrent();
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Null where no notebook is open. */
  get session(): ISessionContext | null {
    return this._session;
  }

  /** Null where there is no notebook, or one without a kernel. */
  get kernelId(): string | null {
    return this._session?.session?.kernel?.id ?? null;
  }

  /** The name of the notebook, or empty. */
  get name(): string {
    return this._session?.name ?? '';
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  private _onCurrent(): void {
    const session = sessionOf(this._shell.currentWidget);
    if (session) {
      this._follow(session);
    }
  }

  private _follow(session: ISessionContext | null): void {
    if (session === this._session) {
      return;
    }
    const old = this._session;
    old?.kernelChanged.disconnect(this._emit, this);
    old?.propertyChanged.disconnect(this._emit, this);
    old?.disposed.disconnect(this._onClosed, this);
    this._session = session;
    session?.kernelChanged.connect(this._emit, this);
    session?.propertyChanged.connect(this._emit, this);
    session?.disposed.connect(this._onClosed, this);
    this._emit();
  }

  private _onClosed(): void {
    this._follow(null);
  }

  private _emit(): void {
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
  private _isDisposed = false;
  private _session: ISessionContext | null = null;
}

/** The session of a notebook or a console; null for any other widget. */
function sessionOf(widget: Widget | null): ISessionContext | null {
  return widget && 'sessionContext' in widget
    ? (widget.sessionContext as ISessionContext)
    : null;
}
