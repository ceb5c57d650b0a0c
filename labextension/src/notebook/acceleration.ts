/**
 * Which kernels run pandas and scikit-learn on a GPU, by `%gpudask accelerate`, and the commands that switch that,
 * `%gpudask on` and the use of shared clusters.
 */
import { ISessionContext } from '@jupyterlab/apputils';
import { Kernel } from '@jupyterlab/services';
import { ITranslator } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { KERNEL_ARGS } from '../cluster/commands';
import { isOffered } from '../cluster/offered';
import { CommandIDs } from '../commandIDs';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';

/** The target of the comm that is open in an accelerated kernel. */
const COMM_TARGET = 'jupyter_gpudask:accelerate';

/** The states of a kernel that has ended. */
export const ENDED: Kernel.Status[] = ['restarting', 'autorestarting', 'dead'];

/** Follows the kernels of notebooks. */
export class Acceleration {
  /** Emitted when a kernel is accelerated, or is no longer. */
  readonly changed = new Signal<this, void>(this);

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
      this.changed.emit();
    }
  }

  private readonly _kernels = new Set<string>();
  private readonly _sessions = new Set<ISessionContext>();
}

/** Add the commands; they are enabled for the kernels of notebooks. */
export function addKernelCommands(
  gpuDask: IGpuDask,
  acceleration: Acceleration,
  translator: ITranslator
): void {
  const { commands, current, model, trans } = gpuDask;
  const kernelOf = (args: ReadonlyPartialJSONObject): string =>
    typeof args.kernelId === 'string'
      ? args.kernelId
      : (current.kernelId ?? '');
  commands.addCommand(CommandIDs.accelerate, {
    label: trans.__('Accelerate pandas and scikit-learn'),
    caption: trans.__(
      'Run pandas and scikit-learn on a GPU, with cudf.pandas and cuml.accel, until the kernel is restarted'
    ),
    describedBy: { args: KERNEL_ARGS },
    isEnabled: args => acceleration.find(kernelOf(args)) !== undefined,
    isToggleable: true,
    isToggled: args => acceleration.isOn(kernelOf(args)),
    execute: async args => {
      const session = acceleration.find(kernelOf(args));
      const kernel = session?.session?.kernel;
      if (!kernel) {
        return;
      }
      const { accelerate, endAcceleration } = await import('./accelerate');
      await (acceleration.isOn(kernel.id)
        ? endAcceleration(session, translator)
        : accelerate(kernel, acceleration, trans));
    }
  });
  acceleration.changed.connect(() =>
    commands.notifyCommandChanged(CommandIDs.accelerate)
  );
  const isOn = (args: ReadonlyPartialJSONObject): boolean =>
    model.clusters.get(kernelOf(args))?.automatic ?? false;
  commands.addCommand(CommandIDs.runOnGpus, {
    label: trans.__('Run Dask on GPUs'),
    caption: trans.__(
      'Run every cell that uses Dask on the cluster, which is started if there is none'
    ),
    describedBy: { args: KERNEL_ARGS },
    isVisible: () =>
      isOffered(CommandIDs.runOnGpus, false, model.settings.value),
    isEnabled: args => acceleration.find(kernelOf(args)) !== undefined,
    isToggleable: true,
    isToggled: isOn,
    execute: async args => {
      const kernel = acceleration.find(kernelOf(args))?.session?.kernel;
      if (!kernel) {
        return false;
      }
      const { runOnGpus } = await import('./accelerate');
      return runOnGpus(kernel, isOn(args), gpuDask);
    }
  });

  const sharedOf = (args: ReadonlyPartialJSONObject): ICluster | undefined =>
    model.clusters.get(`${args.shared}`);
  const isConnected = (args: ReadonlyPartialJSONObject): boolean =>
    model.clusters.get(kernelOf(args))?.joined === sharedOf(args)?.name;
  const hasCluster = (args: ReadonlyPartialJSONObject): boolean =>
    ['starting', 'ready', 'closing'].includes(
      model.clusters.get(kernelOf(args))?.status ?? ''
    );
  commands.addCommand(CommandIDs.useShared, {
    label: args => trans.__('Use %1', sharedOf(args)?.name ?? ''),
    caption: trans.__(
      'Connect the notebook to the shared cluster, or disconnect it'
    ),
    describedBy: {
      args: {
        ...KERNEL_ARGS,
        properties: {
          ...KERNEL_ARGS.properties,
          shared: {
            type: 'string',
            description: 'The id of the shared cluster, such as "shared-1".'
          }
        }
      }
    },
    isVisible: args => sharedOf(args) !== undefined,
    isEnabled: args =>
      sharedOf(args)?.status === 'ready' &&
      acceleration.find(kernelOf(args)) !== undefined &&
      (isConnected(args) || !hasCluster(args)),
    isToggleable: true,
    isToggled: isConnected,
    execute: async args => {
      const kernel = acceleration.find(kernelOf(args))?.session?.kernel;
      if (kernel) {
        const { useShared } = await import('./accelerate');
        const shared = isConnected(args) ? null : `${args.shared}`;
        await useShared(kernel, shared, trans);
      }
    }
  });
}
