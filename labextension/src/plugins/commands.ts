import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';

import type { ClusterActions } from '../cluster/actions';
import { addClusterCommands } from '../cluster/commands';
import { CommandIDs } from '../commandIDs';
import { dashboardArgs, parseDashboard } from '../dashboard/dashboard';
import { DashboardPages, DashboardTabs } from '../dashboard/views';
import { ICluster } from '../model/api';
import { RestClient } from '../model/rest';
import { hasKernel } from '../notebook/currentKernel';
import { IGpuDask } from '../tokens';

const NO_ARGS = {
  type: 'object',
  properties: {},
  additionalProperties: false
} as const;

/** A plugin that adds the cluster commands and the tabs with Dask dashboards. */
export const commands: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:commands',
  description: 'Commands that start, stop and show Dask clusters.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ): void => {
    const { trans } = gpuDask;
    const { serverSettings } = app.serviceManager;
    const actions = async (): Promise<ClusterActions> => {
      const { ClusterActions } = await import('../cluster/actions');
      return new ClusterActions(
        gpuDask.model,
        new RestClient(serverSettings),
        trans
      );
    };
    const { baseUrl } = serverSettings;
    const tabs = new DashboardTabs(gpuDask, app.shell, baseUrl);
    // Notebook 7 shows one document in a page: it has no tabs.
    const views = labShell ? tabs : new DashboardPages(baseUrl);
    const showLogs = async (cluster: ICluster): Promise<void> => {
      const [{ LogsTab, logsId }, { placeBeside }] = await Promise.all([
        import('../logs/tab'),
        import('../logs/place')
      ]);
      const id = logsId(cluster);
      // The down area of Notebook 7 is below its document.
      const area = labShell ? 'main' : 'down';
      const widgets = [...app.shell.widgets(area)];
      if (!widgets.some(widget => widget.id === id)) {
        const rest = new RestClient(serverSettings);
        const notebook = widgets.find(widget =>
          hasKernel(widget, cluster.kernel_id)
        );
        app.shell.add(new LogsTab(gpuDask, rest, cluster), area, {
          type: 'GPU Dask Logs',
          ...placeBeside(app.shell.currentWidget, notebook)
        });
      }
      app.shell.activateById(id);
    };
    const added = addClusterCommands(gpuDask, actions, views, showLogs);
    app.commands.addCommand(CommandIDs.closePlots, {
      label: trans.__('Close Dask Plots'),
      describedBy: { args: NO_ARGS },
      isEnabled: () => tabs.tracker.size > 0,
      execute: () => labShell && tabs.closeAll(labShell)
    });
    app.commands.addCommand(CommandIDs.restoreDashboard, {
      describedBy: { args: NO_ARGS },
      isVisible: () => false,
      execute: args => tabs.open(parseDashboard(args))
    });

    if (labShell) {
      void restorer?.restore(tabs.tracker, {
        command: CommandIDs.restoreDashboard,
        args: tab => dashboardArgs(tab.dashboard),
        name: tab => tab.id
      });
    }
    const category = trans.__('GPU Dask');
    [...added, CommandIDs.closePlots].forEach(command =>
      palette?.addItem({ command, category })
    );
  }
};
