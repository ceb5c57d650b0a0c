/**
 * Starts a cluster for each kernel of a notebook, where the user has chosen so.
 */
import { ISessionContext, Notification } from '@jupyterlab/apputils';

import { sentenceOf } from '../errors';
import { RefusedError, RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';

/** What is nothing to tell: there is one already, or the kernel can have none. */
const SILENT = ['ClusterExistsError', 'KernelUnsuitableError'];

export class Autostart {
  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _rest: RestClient
  ) {}

  /** Start one for the kernel of a notebook, and for each that takes its place. */
  follow(session: ISessionContext): void {
    const start = (): void => void this._start(session);
    session.kernelChanged.connect(start);
    start();
  }

  private async _start(session: ISessionContext): Promise<void> {
    const { model, trans } = this._gpuDask;
    await model.settings.ready;
    const kernelId = session.session?.kernel?.id;
    if (!model.settings.value.autostart || !kernelId) {
      return;
    }
    try {
      model.put(await this._rest.create(kernelId));
    } catch (error) {
      const kind = error instanceof RefusedError ? error.problem.kind : '';
      if (!SILENT.includes(kind)) {
        Notification.warning(
          trans.__(
            'No cluster was started for %1: %2',
            session.name,
            sentenceOf(error, trans)
          )
        );
      }
    }
  }
}
