/**
 * What can be done with a kernel's cluster.
 */
import {
  Clipboard,
  Dialog,
  Notification,
  showDialog,
  showErrorMessage
} from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { dashboardFor, IDashboard } from '../dashboard/dashboard';
import { openPlotMenu } from '../dashboard/plotMenu';
import { LogsView } from '../dialogs/logs';
import { scaleDialog } from '../dialogs/scaleDialog';
import { startDialog } from '../dialogs/startDialog';
import { endOf, problemOf, refusalOf, sentenceOf } from '../errors';
import { holderName, lossOf } from '../format';
import { ICluster, IProblem } from '../model/api';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CLIENT_LINES } from '../snippets';

/** Milliseconds that a cluster may take to say what it does. */
const PATIENCE = 2000;

export class ClusterActions {
  constructor(
    private readonly _model: GpuDaskModel,
    private readonly _rest: RestClient,
    private readonly _trans: TranslationBundle
  ) {}

  /** Start a cluster with the options by default; where these are refused, ask for others. */
  async start(kernelId: string, name: string): Promise<void> {
    const trans = this._trans;
    try {
      this._model.put(await this._rest.create(kernelId));
    } catch (error) {
      const problem = problemOf(error, trans);
      if (problem.field) {
        await this.startWithOptions(kernelId, name, problem);
      } else {
        await showErrorMessage(
          trans.__('The cluster was not started'),
          sentenceOf(error, trans)
        );
      }
    }
  }

  /** Ask for options, and start a cluster with them. */
  async startWithOptions(
    kernelId: string,
    name: string,
    refusal: IProblem | null = null
  ): Promise<void> {
    const title = this._trans.__('The options cannot be asked for');
    await this._try(title, async () => {
      const offer = await this._rest.profiles();
      const { clusters } = this._model;
      const last = clusters.get(kernelId);
      const gpus = (this._model.gpus?.gpus ?? []).map(gpu => ({
        ...gpu,
        holders: gpu.holders.map(holder => ({
          ...holder,
          name: holderName(holder, clusters)
        }))
      }));
      await startDialog({
        name,
        gpus,
        offer,
        spec: last?.spec,
        problem: refusal ?? (last ? refusalOf(last, this._trans) : null),
        units: this._model.settings.value.units,
        trans: this._trans,
        submit: async (spec, profile) =>
          this._model.put(await this._rest.create(kernelId, spec, profile))
      }).launch();
    });
  }

  /** Ask how many workers a cluster shall have, and have so many. */
  async scale(cluster: ICluster): Promise<void> {
    await scaleDialog({
      cluster,
      trans: this._trans,
      submit: async workers =>
        this._model.put(await this._rest.scale(cluster.kernel_id, workers))
    }).launch();
  }

  /** Close a cluster; asks first if that loses work or results. */
  async stop(cluster: ICluster): Promise<void> {
    const trans = this._trans;
    const isSure = await this._confirm(
      cluster,
      trans.__('Stop the cluster of %1?', cluster.name),
      trans.__('Stop')
    );
    if (isSure) {
      await this._try(trans.__('The cluster was not stopped'), async () => {
        await this._rest.stop(cluster.kernel_id);
        this._model.remove(cluster.kernel_id);
      });
    }
  }

  /** Start a cluster anew; asks first if that loses work or results. */
  async restart(cluster: ICluster): Promise<void> {
    const trans = this._trans;
    const isSure = await this._confirm(
      cluster,
      trans.__('Restart the cluster of %1?', cluster.name),
      trans.__('Restart')
    );
    if (isSure) {
      await this._try(trans.__('The cluster was not restarted'), async () =>
        this._model.put(await this._rest.restart(cluster.kernel_id))
      );
    }
  }

  /** Show what the processes of a cluster have logged. */
  async showLogs(cluster: ICluster): Promise<void> {
    const trans = this._trans;
    await this._try(trans.__('The logs cannot be read'), async () => {
      const logs =
        cluster.status === 'ready'
          ? await this._rest.logs(cluster.kernel_id)
          : { supervisor: endOf(cluster, trans).log };
      await showDialog({
        title: trans.__('Logs of the cluster of %1', cluster.name),
        body: new LogsView(logs, cluster.state?.workers ?? [], trans),
        buttons: [Dialog.okButton({ label: trans.__('Close') })]
      });
    });
  }

  /** Show the plots that Dask offers for a cluster, and open the chosen one. */
  async choosePlot(
    cluster: ICluster,
    open: (dashboard: IDashboard) => void
  ): Promise<void> {
    await this._try(this._trans.__('The plots cannot be read'), async () => {
      const plots = await this._rest.plots(cluster.kernel_id);
      openPlotMenu(plots, plot => open(dashboardFor(cluster, plot)));
    });
  }

  /** Copy the lines that get the client. */
  copyCode(): void {
    Clipboard.copyToSystem(CLIENT_LINES);
    Notification.success(
      this._trans.__('Copied. Paste it into a cell of the notebook.'),
      { autoClose: 3000 }
    );
  }

  private async _confirm(
    cluster: ICluster,
    title: string,
    action: string
  ): Promise<boolean> {
    const trans = this._trans;
    const now = await this._now(cluster);
    if (!isSame(cluster, now)) {
      this._model.put(now);
      Notification.info(
        trans.__(
          'The cluster of %1 is another one than before, and was left as it is.',
          cluster.name
        ),
        { autoClose: 5000 }
      );
      return false;
    }
    const lost = lossOf(now, this._model.settings.value.units, trans);
    if (!lost) {
      return true;
    }
    const result = await showDialog({
      title,
      body: lost,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: action })
      ]
    });
    return result.button.accept;
  }

  /** What was shown may be a second old, or from before the panel was hidden. */
  private async _now(cluster: ICluster): Promise<ICluster> {
    if (cluster.status === 'starting') {
      return cluster;
    }
    const shown = new Promise<ICluster>(resolve =>
      setTimeout(() => resolve(cluster), PATIENCE)
    );
    const asked = this._rest.cluster(cluster.kernel_id).catch(() => cluster);
    return Promise.race([asked, shown]);
  }

  private async _try(title: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      await showErrorMessage(title, sentenceOf(error, this._trans));
    }
  }
}

/** Whether the user, who has seen `shown`, means `now`. */
function isSame(shown: ICluster, now: ICluster): boolean {
  return shown.status === 'ready'
    ? shown.pid === now.pid
    : shown.since === now.since;
}
