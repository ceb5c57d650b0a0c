import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';

import type { ClusterActions } from '../cluster/actions';
import { addClusterCommands } from '../cluster/commands';
import { CommandIDs } from '../commandIDs';
import {
  dashboardArgs,
  parseDashboard,
  dashboardUrl,
  IDashboard
} from '../dashboard/dashboard';
import type { DashboardTab } from '../dashboard/tab';
import { RestClient } from '../model/rest';
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
    const tracker = new WidgetTracker<DashboardTab>({
      namespace: 'jupyter-gpudask-dashboards'
    });

    const openTab = async (dashboard: IDashboard): Promise<void> => {
      const { kernelId, plot } = dashboard;
      const old = tracker.find(
        ({ dashboard: shown }) =>
          shown.kernelId === kernelId && shown.plot?.path === plot?.path
      );
      const tab = old ?? (await addTab(dashboard));
      app.shell.activateById(tab.id);
    };
    const addTab = async (dashboard: IDashboard): Promise<DashboardTab> => {
      const { DashboardTab } = await import('../dashboard/tab');
      const tab = new DashboardTab(gpuDask, dashboard, serverSettings.baseUrl);
      tab.dashboardChanged.connect(changed => void tracker.save(changed));
      app.shell.add(tab, 'main', { type: 'GPU Dask' });
      await tracker.add(tab);
      return tab;
    };
    const openPage = ({ kernelId, plot }: IDashboard): void => {
      window.open(
        dashboardUrl(serverSettings.baseUrl, kernelId, plot?.path),
        '_blank',
        'noopener'
      );
    };
    // Notebook 7 shows one document in a page: it has no tabs.
    addClusterCommands(gpuDask, actions, labShell ? openTab : openPage);
    app.commands.addCommand(CommandIDs.restoreDashboard, {
      describedBy: { args: NO_ARGS },
      isVisible: () => false,
      execute: args => openTab(parseDashboard(args))
    });

    if (labShell) {
      void restorer?.restore(tracker, {
        command: CommandIDs.restoreDashboard,
        args: tab => dashboardArgs(tab.dashboard),
        name: tab => tab.id
      });
    }
    const category = trans.__('GPU Dask');
    [
      CommandIDs.start,
      CommandIDs.startWithOptions,
      CommandIDs.scale,
      CommandIDs.restart,
      CommandIDs.stop,
      CommandIDs.openDashboard,
      CommandIDs.choosePlot,
      CommandIDs.showLogs,
      CommandIDs.copyCode,
      CommandIDs.reconnect
    ].forEach(command => palette?.addItem({ command, category }));
  }
};
