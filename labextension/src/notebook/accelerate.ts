/**
 * Runs `%gpudask accelerate` in the kernel of a notebook, or restarts the kernel.
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

import { ACCELERATE_CODE } from '../snippets';
import { Acceleration } from './acceleration';

/** Ask whether to restart an accelerated kernel: only that ends it. */
export async function endAcceleration(
  session: ISessionContext,
  translator: ITranslator
): Promise<void> {
  await new SessionContextDialogs({ translator }).restart(session);
}

/** Accelerate a kernel, and show what the magic says. */
export async function accelerate(
  kernel: Kernel.IKernelConnection,
  acceleration: Acceleration,
  trans: TranslationBundle
): Promise<void> {
  const refused = trans.__('The kernel was not accelerated');
  try {
    const body = await runMagic(kernel);
    await showDialog({
      // Without a GPU the magic says so, and changes nothing.
      title: acceleration.isOn(kernel.id)
        ? trans.__('The kernel is accelerated')
        : refused,
      body,
      buttons: [Dialog.okButton()]
    });
  } catch (error) {
    await showErrorMessage(
      refused,
      error instanceof Error ? error.message : String(error)
    );
  }
}

/**
 * Run `%gpudask accelerate`.
 *
 * @returns what the command shows
 * @throws an error with the sentence of the command if it refuses
 */
async function runMagic(kernel: Kernel.IKernelConnection): Promise<string> {
  const future = kernel.requestExecute({
    code: ACCELERATE_CODE,
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
