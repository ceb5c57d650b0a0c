/**
 * The command that accelerates a kernel, or ends that.
 */
import { ITranslator } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { KERNEL_ARGS } from '../cluster/commands';
import { CommandIDs } from '../commandIDs';
import { IGpuDask } from '../tokens';
import { Acceleration } from './acceleration';

/** Add the command; it is enabled for the kernels of notebooks. */
export function addAccelerateCommand(
  { commands, current, trans }: IGpuDask,
  acceleration: Acceleration,
  translator: ITranslator
): void {
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
}
