/**
 * The front end of jupyter_gpudask: one array of small plugins, wiring only.
 *
 * Every token that is not our own is optional: a Notebook 7 page has not all of them.
 */
import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  ISessionContext,
  IToolbarWidgetRegistry,
  WidgetTracker
} from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { ClusterActions } from './actions';
import { CommandIDs } from './commandIDs';
import { addClusterCommands } from './commands';
import { CurrentKernel } from './current';
import {
  dashboardArgs,
  DashboardTab,
  dashboardId,
  dashboardOf,
  dashboardUrl,
  IDashboard
} from './dashboard';

import { gpuDaskIcon } from './icon';
import { Connection } from './model/connection';
import { GpuDaskModel } from './model/model';
import { RestClient } from './model/rest';
import { createPanel } from './panel';
import { historyTab } from './plugins/history';
import { launcher } from './plugins/launcher';
import { notebook } from './plugins/notebook';
import { notifications } from './plugins/notifications';
import { running } from './plugins/running';
import { settings } from './plugins/settings';
import { IGpuDaskToken } from './tokens';
import { createClusterButton } from './views/clusterButton';
import { IGpuDask } from './views/context';
import { LiveWidget } from './views/liveWidget';
import { currentGpus, StatusItem } from './views/statusItem';

export { CommandIDs } from './commandIDs';

const NO_ARGS = {
  type: 'object',
  properties: {},
  additionalProperties: false
} as const;

/** The state that all parts share. */
const model: JupyterFrontEndPlugin<IGpuDask> = {
  id: 'jupyter-gpudask:model',
  description: 'The state of the GPUs and of the Dask clusters on them.',
  autoStart: true,
  provides: IGpuDaskToken,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    const { serverSettings } = app.serviceManager;
    return {
      model: new GpuDaskModel(new Connection(new RestClient(serverSettings))),
      current: new CurrentKernel(app.shell),
      commands: app.commands,
      trans: (translator ?? nullTranslator).load('jupyter_gpudask')
    };
  }
};

/** What can be done with clusters, in the palette too, and the tabs with Dask's dashboards. */
const commands: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:commands',
  description: 'Commands that start, stop and show Dask clusters.',
  autoStart: true,
  requires: [IGpuDaskToken],
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
      const { ClusterActions } = await import('./actions');
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
      const id = dashboardId(dashboard);
      if (!tracker.find(tab => tab.id === id)) {
        const tab = new DashboardTab(dashboard, serverSettings.baseUrl, trans);
        app.shell.add(tab, 'main', { type: 'GPU Dask' });
        await tracker.add(tab);
      }
      app.shell.activateById(id);
    };
    const openPage = ({ kernelId, plot }: IDashboard): void => {
      window.open(
        dashboardUrl(serverSettings.baseUrl, kernelId, plot?.path),
        '_blank',
        'noopener'
      );
    };
    // A page of Notebook 7 has room for one document.
    addClusterCommands(gpuDask, actions, labShell ? openTab : openPage);
    app.commands.addCommand(CommandIDs.restoreDashboard, {
      describedBy: { args: NO_ARGS },
      isVisible: () => false,
      execute: args => openTab(dashboardOf(args))
    });

    if (labShell) {
      void restorer?.restore(tracker, {
        command: CommandIDs.restoreDashboard,
        args: dashboardArgs,
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

/** The sidebar panel and the command that opens it. */
const panel: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:panel',
  description: 'A left sidebar panel for GPUs and the Dask clusters on them.',
  autoStart: true,
  requires: [IGpuDaskToken],
  optional: [ITranslator, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ): void => {
    const { trans } = gpuDask;
    const sidePanel = createPanel(gpuDask, translator ?? nullTranslator);

    app.shell.add(sidePanel, 'left', { rank: 600, type: 'GPU Dask' });
    restorer?.add(sidePanel, sidePanel.id);

    app.commands.addCommand(CommandIDs.showPanel, {
      label: args =>
        args.isLauncher
          ? trans.__('GPU Dask')
          : trans.__('Show GPU Dask panel'),
      caption: trans.__('Show the GPU Dask panel in the left sidebar'),
      icon: gpuDaskIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            isLauncher: {
              type: 'boolean',
              description: 'Whether it is the card in the launcher.'
            }
          },
          additionalProperties: false
        }
      },
      execute: () => app.shell.activateById(sidePanel.id)
    });
    palette?.addItem({
      command: CommandIDs.showPanel,
      category: trans.__('GPU Dask')
    });
  }
};

/** The button in the toolbar of each notebook. */
const toolbar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:toolbar',
  description: 'The state of a notebook’s cluster in its toolbar.',
  autoStart: true,
  requires: [IGpuDaskToken],
  optional: [IToolbarWidgetRegistry],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    registry: IToolbarWidgetRegistry | null
  ): void => {
    registry?.addFactory<Widget & { sessionContext: ISessionContext }>(
      'Notebook',
      'gpudask-cluster',
      notebook => createClusterButton(gpuDask, notebook.sessionContext)
    );
  }
};

/** The item in the status bar. */
const status: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:status',
  description: 'The GPUs of the current notebook’s cluster in the status bar.',
  autoStart: true,
  requires: [IGpuDaskToken],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    statusBar: IStatusBar | null
  ): void => {
    statusBar?.registerStatusItem('jupyter-gpudask:status', {
      item: new LiveWidget(gpuDask, StatusItem),
      align: 'left',
      rank: 50,
      isActive: () =>
        gpuDask.model.settings.value.showStatusBar &&
        currentGpus(gpuDask).length > 0,
      activeStateChanged: gpuDask.model.changed
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  model,
  commands,
  panel,
  toolbar,
  status,
  settings,
  notifications,
  running,
  launcher,
  notebook,
  historyTab
];

export default plugins;
