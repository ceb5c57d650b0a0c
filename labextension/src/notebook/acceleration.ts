/**
 * Which kernels run pandas and scikit-learn on a GPU, by `%gpudask accelerate`.
 */
import { ISessionContext } from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

/** The target of the comm that is open in an accelerated kernel. */
const COMM_TARGET = 'jupyter_gpudask:accelerate';

const ENDED: Kernel.Status[] = ['restarting', 'autorestarting', 'dead'];

/** Follows the kernels of notebooks. */
export class Acceleration {
  /** Emitted when a kernel is accelerated, or is no longer. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Follow the kernels of a notebook. */
  watch(session: ISessionContext): void {
    const examine = (): void => void this._examine(session);
    this._sessions.add(session);
    session.kernelChanged.connect(examine);
    session.statusChanged.connect((_, status) => {
      if (ENDED.includes(status)) {
        this._set(session.session?.kernel?.id, false);
      }
    });
    session.disposed.connect(() => this._sessions.delete(session));
    examine();
  }

  /** The notebook of a kernel, if there is one. */
  find(kernelId: string): ISessionContext | undefined {
    return [...this._sessions].find(
      ({ session }) => session?.kernel?.id === kernelId
    );
  }

  isOn(kernelId: string): boolean {
    return this._kernels.has(kernelId);
  }

  /** Find out whether a kernel is accelerated, now and from now on. */
  private async _examine({ session }: ISessionContext): Promise<void> {
    const kernel = session?.kernel;
    if (!kernel) {
      return;
    }
    kernel.registerCommTarget(COMM_TARGET, () => this._set(kernel.id, true));
    try {
      const { content } = await kernel.requestCommInfo({
        target_name: COMM_TARGET
      });
      const isOpen =
        content.status === 'ok' && Object.keys(content.comms).length > 0;
      if (isOpen) {
        this._set(kernel.id, true);
      }
    } catch {
      // The kernel has ended, or was restarted: it is not accelerated.
    }
  }

  private _set(kernelId: string | undefined, isOn: boolean): void {
    if (kernelId !== undefined && this.isOn(kernelId) !== isOn) {
      if (isOn) {
        this._kernels.add(kernelId);
      } else {
        this._kernels.delete(kernelId);
      }
      this._changed.emit();
    }
  }

  private _changed = new Signal<this, void>(this);
  private readonly _kernels = new Set<string>();
  private readonly _sessions = new Set<ISessionContext>();
}
