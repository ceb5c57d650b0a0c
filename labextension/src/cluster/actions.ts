/**
 * The actions of the cluster commands, with their dialogs and error messages.
 */
import {
  Clipboard,
  Notification,
  showErrorMessage
} from '@jupyterlab/apputils';

import { clusterDashboard, IPlot } from '../dashboard/dashboard';
import {
  favorites,
  IPaletteEntry,
  listPlots,
  NAMED_LAYOUTS,
  openPlotPalette,
  placeLayout,
  reportProblems
} from '../dashboard/layout';
import { IDashboardViews } from '../dashboard/views';
import { LossDialog } from '../dialogs/lossDialog';
import { scaleDialog } from '../dialogs/scaleDialog';
import { startDialog } from '../dialogs/startDialog';
import { toProblem, errorMessage } from '../errors';
import { ICluster, IProblem, isShared, SpecRequest } from '../model/api';
import { CLIENT_CODE, sharedClientCode } from '../snippets';
import { IGpuDask } from '../tokens';
import { holderName, subjectOf } from './names';
import { snapshot } from './snapshot';
import { lossWarning, releaseWarning } from './warnings';

/** How long to wait for the state of a cluster before it is stopped, in milliseconds. */
const STATE_TIMEOUT = 2000;

/** The actions of the cluster commands. */
export class ClusterActions {
  constructor(private readonly _gpuDask: IGpuDask) {}

  /** Start a cluster with the default options; if the server refuses one of them, open the options dialog. */
  async start(kernelId: string, name: string): Promise<void> {
    const { model, rest, trans } = this._gpuDask;
    try {
      model.updateCluster(await rest.start(kernelId));
    } catch (error) {
      const problem = toProblem(error, trans);
      if (problem.field) {
        await this.startWithOptions(kernelId, name, problem);
      } else {
        await showErrorMessage(
          trans.__('The cluster could not be started'),
          errorMessage(error, trans)
        );
      }
    }
  }

  /** Start a cluster again that has ended, with other options. */
  async startAgain(cluster: ICluster, spec: SpecRequest): Promise<void> {
    const title = this._gpuDask.trans.__('The cluster could not be started');
    await this._act(title, cluster, 'restart', { spec });
  }

  /** Open the dialog that starts a cluster with options; without a kernel, a shared cluster. */
  async startWithOptions(
    kernelId: string,
    name: string,
    problem: IProblem | null = null
  ): Promise<void> {
    const { model, rest, trans } = this._gpuDask;
    const title = trans.__('The cluster options could not be loaded');
    await this._try(title, async () => {
      const [schema, presets] = await Promise.all([
        rest.options(),
        rest.presets()
      ]);
      const { clusters } = model;
      const last = clusters.get(kernelId);
      const gpus = (model.gpus?.gpus ?? []).map(gpu => ({
        ...gpu,
        holders: gpu.holders.map(holder => ({
          ...holder,
          name: holderName(holder, clusters)
        }))
      }));
      await startDialog({
        name: isShared(kernelId) ? '' : name,
        gpus,
        schema,
        presets,
        spec: last?.spec,
        problem: problem ?? snapshot(last, this._gpuDask).problem,
        units: model.settings.value.units,
        trans,
        submit: async spec =>
          model.updateCluster(await rest.create(kernelId, spec))
      }).launch();
    });
  }

  /** Open the dialog that changes the number of workers. */
  async scale(cluster: ICluster): Promise<void> {
    const { model, rest, trans } = this._gpuDask;
    const submit = async (verb: string, numbers: object): Promise<void> =>
      model.updateCluster(await rest.act(cluster.kernel_id, verb, numbers));
    await scaleDialog({ cluster, trans, submit }).launch();
  }

  /** Stop a cluster; ask for confirmation if tasks or results would be lost. */
  async stop(cluster: ICluster): Promise<void> {
    const { model, rest, trans } = this._gpuDask;
    const question = isShared(cluster.kernel_id)
      ? trans.__('Stop %1?', cluster.name)
      : trans.__('Stop the cluster of %1?', cluster.name);
    if (await this._confirm(cluster, question, trans.__('Stop'))) {
      const title = trans.__('The cluster could not be stopped');
      await this._try(title, async () => {
        await rest.stop(cluster.kernel_id);
        model.removeCluster(cluster.kernel_id);
      });
    }
  }

  /** Restart a cluster; ask for confirmation if tasks or results would be lost. */
  async restart(cluster: ICluster): Promise<void> {
    const { trans } = this._gpuDask;
    const question = isShared(cluster.kernel_id)
      ? trans.__('Restart %1?', cluster.name)
      : trans.__('Restart the cluster of %1?', cluster.name);
    if (await this._confirm(cluster, question, trans.__('Restart'))) {
      const title = trans.__('The cluster could not be restarted');
      await this._act(title, cluster, 'restart', {});
    }
  }

  /** Release the results on the workers of a cluster, after a confirmation. */
  async release(cluster: ICluster): Promise<void> {
    const { trans } = this._gpuDask;
    const question = trans.__('Release the results of %1?', cluster.name);
    const label = trans.__('Release');
    if (await this._confirm(cluster, question, label, releaseWarning)) {
      const title = trans.__('The results could not be released');
      await this._act(title, cluster, 'release');
    }
  }

  /** Keep the GPUs of an idle cluster, which somebody waits for. */
  async keep(cluster: ICluster): Promise<void> {
    const title = this._gpuDask.trans.__('The GPUs could not be kept');
    await this._act(title, cluster, 'keep');
  }

  /** Open the plots of the setting `defaultLayout`. */
  async openPlots(cluster: ICluster, views: IDashboardViews): Promise<void> {
    await this._withPlots(cluster, plots =>
      this._layouts(cluster, plots, views)[0].open()
    );
  }

  /** Open the layout of plots with this name; without one, search the layouts and open one. */
  async openLayout(
    cluster: ICluster,
    views: IDashboardViews,
    name: string
  ): Promise<void> {
    const { trans } = this._gpuDask;
    await this._withPlots(cluster, plots => {
      const entries = this._layouts(cluster, plots, views);
      const named = entries.find(({ label }) => label === name);
      return named
        ? named.open()
        : openPlotPalette(trans.__('Search the layouts'), entries);
    });
  }

  /** Search the layouts and the individual plots of a cluster's dashboard, and open one. */
  async choosePlot(cluster: ICluster, views: IDashboardViews): Promise<void> {
    const { trans } = this._gpuDask;
    const { defaultLayout } = this._gpuDask.model.settings.value;
    await this._withPlots(cluster, plots => {
      const toEntry = (plot: IPlot): IPaletteEntry => ({
        label: plot.title,
        open: () => views.open(clusterDashboard(cluster, plot))
      });
      const first = favorites(defaultLayout, plots);
      const rest = plots.filter(plot => !first.includes(plot));
      const layouts = this._layouts(cluster, plots, views).map(
        ({ label, open }) => ({ label: trans.__('Layout: %1', label), open })
      );
      openPlotPalette(trans.__('Search the plots'), [
        ...first.map(toEntry),
        ...(views.hasLayouts ? layouts : []),
        ...rest.map(toEntry)
      ]);
    });
  }

  /** Copy the code that gets the Dask client. */
  copyCode({ kernel_id: id }: ICluster): void {
    Clipboard.copyToSystem(isShared(id) ? sharedClientCode(id) : CLIENT_CODE);
    Notification.success(
      this._gpuDask.trans.__(
        'Copied. Paste the code into a cell of the notebook.'
      ),
      { autoClose: 3000 }
    );
  }

  private async _withPlots(
    cluster: ICluster,
    act: (plots: IPlot[]) => unknown
  ): Promise<void> {
    await this._try(
      this._gpuDask.trans.__('The plots could not be loaded'),
      async () => {
        await act(await listPlots(this._gpuDask.rest, cluster.kernel_id));
      }
    );
  }

  /** The layouts of the settings; that of the button comes first. */
  private _layouts(
    cluster: ICluster,
    plots: IPlot[],
    views: IDashboardViews
  ): IPaletteEntry[] {
    const { defaultLayout, layouts } = this._gpuDask.model.settings.value;
    const { trans } = this._gpuDask;
    return [
      [trans.__('Default'), defaultLayout] as const,
      ...new Map([
        ...Object.entries(NAMED_LAYOUTS),
        ...layouts.map(({ name, plots }) => [name, plots] as const)
      ])
    ].map(([label, layout]) => ({
      label,
      open: () => {
        const placed = placeLayout(layout, cluster, plots);
        reportProblems(label, placed, trans);
        return views.openLayout(cluster, placed.dashboards);
      }
    }));
  }

  /** Return whether the action is confirmed, or needs no confirmation. */
  private async _confirm(
    cluster: ICluster,
    title: string,
    action: string,
    warningOf = lossWarning
  ): Promise<boolean> {
    const { model, trans } = this._gpuDask;
    const now = await this._latest(cluster);
    if (!isSame(cluster, now)) {
      model.updateCluster(now);
      Notification.info(
        trans.__(
          '%1 was replaced by another one, which was not changed.',
          subjectOf(cluster, trans)
        ),
        { autoClose: 5000 }
      );
      return false;
    }
    const warningNow = (latest: ICluster): string =>
      warningOf(latest, model.settings.value.units, trans);
    if (!warningNow(now)) {
      return true;
    }
    model.updateCluster(now);
    const dialog = new LossDialog(this._gpuDask, {
      title,
      action,
      kernelId: now.kernel_id,
      isSame: latest => isSame(now, latest),
      warningOf: warningNow
    });
    const { button } = await dialog.launch();
    return button.accept;
  }

  /** The current state of a cluster; what the views show may be out of date. */
  private async _latest(cluster: ICluster): Promise<ICluster> {
    if (cluster.status === 'starting') {
      return cluster;
    }
    const timeout = new Promise<ICluster>(resolve =>
      setTimeout(() => resolve(cluster), STATE_TIMEOUT)
    );
    const latest = this._gpuDask.rest
      .cluster(cluster.kernel_id)
      .catch(() => cluster);
    return Promise.race([latest, timeout]);
  }

  /** Carry out a verb of a cluster. */
  private async _act(
    title: string,
    { kernel_id: kernelId }: ICluster,
    verb: string,
    body?: object
  ): Promise<void> {
    const { model, rest } = this._gpuDask;
    await this._try(title, async () =>
      model.updateCluster(await rest.act(kernelId, verb, body))
    );
  }

  /** Show an error message if an action fails. */
  private async _try(title: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      await showErrorMessage(title, errorMessage(error, this._gpuDask.trans));
    }
  }
}

/** Whether the cluster is still the one that the user has seen, which may have become ready. */
function isSame(shown: ICluster, now: ICluster): boolean {
  return shown.status === 'ready'
    ? shown.pid === now.pid
    : shown.since === now.since ||
        (shown.status === 'starting' && now.status === 'ready');
}
