/**
 * Runs `%gpudask accelerate`, `on`, `off`, `connect` and `disconnect` in the kernel of a notebook, or restarts the kernel.
 */
import {
  Dialog,
  ISessionContext,
  SessionContextDialogs,
  showDialog,
  showErrorMessage
} from '@jupyterlab/apputils';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { ITranslator, TranslationBundle } from '@jupyterlab/translation';

import {
  ACCELERATE_CODE,
  connectCode,
  DISCONNECT_CODE,
  OFF_CODE,
  onCode
} from '../snippets';
import { IGpuDask } from '../tokens';
import { Acceleration } from './acceleration';

/** Ask whether to restart an accelerated kernel: only that ends it. */
export async function endAcceleration(
  session: ISessionContext,
  translator: ITranslator
): Promise<void> {
  await new SessionContextDialogs({ translator }).restart(session);
}

/** Run every cell that uses Dask on the GPUs, or no longer if it is on; returns whether that was possible. */
export async function runOnGpus(
  kernel: Kernel.IKernelConnection,
  isOn: boolean,
  { model, rest, trans }: IGpuDask
): Promise<boolean> {
  const status = model.clusters.get(kernel.id)?.status ?? 'closed';
  const isNew = status === 'closed' || status === 'failed';
  const code = isOn ? OFF_CODE : onCode(isNew ? await rest.defaults() : {});
  try {
    await runMagic(kernel, code);
    return true;
  } catch (error) {
    // The panel or a notification says why not; the model may not know yet that the start has failed.
    const cluster = await rest.cluster(kernel.id).catch(() => null);
    if (cluster?.status !== 'failed') {
      await showErrorMessage(
        trans.__('Dask does not run on GPUs'),
        messageOf(error)
      );
    }
    return false;
  }
}

/** Connect a kernel to the shared cluster with an id, or disconnect it if that is null. */
export async function useShared(
  kernel: Kernel.IKernelConnection,
  shared: string | null,
  trans: TranslationBundle
): Promise<void> {
  try {
    await runMagic(kernel, shared ? connectCode(shared) : DISCONNECT_CODE);
  } catch (error) {
    await showErrorMessage(
      trans.__('The shared cluster cannot be used'),
      messageOf(error)
    );
  }
}

/** Accelerate a kernel, and show what the magic says. */
export async function accelerate(
  kernel: Kernel.IKernelConnection,
  acceleration: Acceleration,
  trans: TranslationBundle
): Promise<void> {
  const refused = trans.__('The kernel was not accelerated');
  try {
    const body = await runMagic(kernel, ACCELERATE_CODE);
    await showDialog({
      // Without a GPU the magic says so, and changes nothing.
      title: acceleration.isOn(kernel.id)
        ? trans.__('The kernel is accelerated')
        : refused,
      body,
      buttons: [Dialog.okButton()]
    });
  } catch (error) {
    await showErrorMessage(refused, messageOf(error));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Run a magic that the notebook does not show.
 *
 * @returns what the command shows
 * @throws an error with the sentence of the command if it refuses
 */
async function runMagic(
  kernel: Kernel.IKernelConnection,
  code: string
): Promise<string> {
  const future = kernel.requestExecute({
    code,
    store_history: false,
    allow_stdin: false
  });
  let text = '';
  future.onIOPub = message => {
    if (KernelMessage.isExecuteResultMsg(message)) {
      text = String(message.content.data['text/plain']);
    }
  };
  const { content } = await future.done;
  if (content.status !== 'ok') {
    throw new Error('evalue' in content ? content.evalue : content.status);
  }
  return text;
}
