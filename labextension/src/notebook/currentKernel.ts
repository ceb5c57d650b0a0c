/**
 * Which kernel is meant where none is named.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

/** A notebook or a console. */
type SessionHolder = Widget & { sessionContext: ISessionContext };

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
    return this._holder?.sessionContext ?? null;
  }

  /** Null where there is no notebook, or one without a kernel. */
  get kernelId(): string | null {
    return this.session?.session?.kernel?.id ?? null;
  }

  /** The name of the notebook, or empty; that of its session may be the one before a renaming. */
  get name(): string {
    return this._holder?.title.label ?? '';
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
    const widget = this._shell.currentWidget;
    if (widget && holdsSession(widget)) {
      this._follow(widget);
    }
  }

  private _follow(holder: SessionHolder | null): void {
    if (holder === this._holder) {
      return;
    }
    const old = this._holder;
    old?.sessionContext.kernelChanged.disconnect(this._emit, this);
    old?.title.changed.disconnect(this._emit, this);
    old?.disposed.disconnect(this._onClosed, this);
    this._holder = holder;
    holder?.sessionContext.kernelChanged.connect(this._emit, this);
    holder?.title.changed.connect(this._emit, this);
    holder?.disposed.connect(this._onClosed, this);
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
  private _holder: SessionHolder | null = null;
}

/** Only notebooks and consoles have one. */
function holdsSession(widget: Widget): widget is SessionHolder {
  return 'sessionContext' in widget;
}
