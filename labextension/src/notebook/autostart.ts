/**
 * Starts a cluster with each notebook, if the user has enabled it.
 */
import { ISessionContext, Notification } from '@jupyterlab/apputils';

import { errorMessage } from '../errors';
import { ResponseError, RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';

/** Errors without a notification: the kernel has a cluster already, or cannot have one. */
const IGNORED_ERRORS = ['ClusterExistsError', 'KernelUnsuitableError'];

/** Starts clusters for the kernels of notebooks. */
export class Autostart {
  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _rest: RestClient
  ) {}

  /** Start a cluster for the kernel of a notebook, and again when the kernel changes. */
  watch(session: ISessionContext): void {
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
      model.updateCluster(await this._rest.start(kernelId));
    } catch (error) {
      const kind = error instanceof ResponseError ? error.problem.kind : '';
      if (!IGNORED_ERRORS.includes(kind)) {
        Notification.warning(
          trans.__(
            'No cluster was started for %1: %2',
            session.name,
            errorMessage(error, trans)
          ),
          // Without this it is only listed behind the bell of the status bar.
          { autoClose: 10000 }
        );
      }
    }
  }
}
