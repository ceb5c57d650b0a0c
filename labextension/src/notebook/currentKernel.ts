/**
 * The kernel of the current notebook or console.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { ISignal, Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

/** A notebook or console. */
type SessionWidget = Widget & { sessionContext: ISessionContext };

/**
 * The kernel of the notebook or console that was current last, while it is open.
 */
export class CurrentKernel {
  constructor(private readonly _shell: JupyterFrontEnd.IShell) {
    _shell.currentChanged?.connect(this._onCurrent, this);
    this._onCurrent();
  }

  /** Emitted when the notebook, its kernel or its name changes. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Null if no notebook is open. */
  get session(): ISessionContext | null {
    return this._widget?.sessionContext ?? null;
  }

  /** Null if no notebook is open, or it has no kernel. */
  get kernelId(): string | null {
    return this.session?.session?.kernel?.id ?? null;
  }

  /** The name of the notebook, or empty. It is that of the tab: the session may have the name before a renaming. */
  get name(): string {
    return this._widget?.title.label ?? '';
  }

  /** The path of the notebook; the name of a console, whose path has an id in its place. */
  get path(): string {
    const path = this.session?.session?.path ?? '';
    return path.endsWith(`/${this.name}`) ? path : this.name;
  }

  /** Whether the notebook or console of a kernel is open in this page. */
  isOpen(kernelId: string): boolean {
    return (
      kernelId === this.kernelId ||
      findNotebook(this._shell, kernelId) !== undefined
    );
  }

  private _onCurrent(): void {
    const { currentWidget } = this._shell;
    if (currentWidget && hasSession(currentWidget)) {
      this._setWidget(currentWidget);
    }
  }

  private _setWidget(widget: SessionWidget | null): void {
    if (widget === this._widget) {
      return;
    }
    const old = this._widget;
    old?.sessionContext.kernelChanged.disconnect(this._emit, this);
    old?.title.changed.disconnect(this._emit, this);
    old?.disposed.disconnect(this._onClosed, this);
    this._widget = widget;
    widget?.sessionContext.kernelChanged.connect(this._emit, this);
    widget?.title.changed.connect(this._emit, this);
    widget?.disposed.connect(this._onClosed, this);
    this._emit();
  }

  private _onClosed(): void {
    this._setWidget(null);
  }

  private _emit(): void {
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
  private _widget: SessionWidget | null = null;
}

/** What JupyterLab says of a kernel that will be there. */
const STARTING = ['initializing', 'starting', 'connecting', 'restarting'];

/** Whether a notebook will have a kernel. */
export function isKernelStarting(session: ISessionContext): boolean {
  return STARTING.includes(session.kernelDisplayStatus);
}

/** The notebook or console of a kernel in the main area. */
export function findNotebook(
  shell: JupyterFrontEnd.IShell,
  kernelId: string
): Widget | undefined {
  return [...shell.widgets('main')].find(
    widget =>
      hasSession(widget) &&
      widget.sessionContext.session?.kernel?.id === kernelId
  );
}

/** Whether a widget is a notebook or console. */
function hasSession(widget: Widget): widget is SessionWidget {
  return 'sessionContext' in widget;
}
