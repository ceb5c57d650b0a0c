/**
 * The plugins. Every token but our own is optional: a page of Notebook 7 lacks some of them.
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
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

import type { ClusterActions } from './cluster/actions';
import { addClusterCommands, NO_ARGS } from './cluster/commands';
import { RunningClusters } from './cluster/running';
import { CommandIDs } from './commandIDs';
import { dashboardArgs, parseDashboard } from './dashboard/dashboard';
import { DashboardPages, DashboardTabs } from './dashboard/views';
import type { HistoryTab } from './history/tab';
import { gpuDaskIcon, historyIcon, launcherIcon } from './icons';
import { ICluster } from './model/api';
import { Connection } from './model/connection';
import { GpuDaskModel } from './model/model';
import { RestClient } from './model/rest';
import { Acceleration, addKernelCommands } from './notebook/acceleration';
import {
  addInsertCommands,
  endLinesOf,
  runRefusedCells,
  startClusterOf
} from './notebook/notebookPlugin';
import {
  createClusterButton,
  createStatusItem
} from './notebook/clusterButton';
import { CurrentKernel } from './notebook/currentKernel';
import { showProgressInTitle } from './notebook/pageTitle';
import { createPanel, keepOpen, PANEL_ID } from './panel/panel';
import { IGpuDask } from './tokens';

/** The state of the GPUs and clusters, which the others share. */
const model: JupyterFrontEndPlugin<IGpuDask> = {
  id: 'jupyter-gpudask:model',
  description: 'The state of the GPUs and of the Dask clusters on them.',
  autoStart: true,
  provides: IGpuDask,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    const language = translator ?? nullTranslator;
    const rest = new RestClient(app.serviceManager.serverSettings);
    const model = new GpuDaskModel(new Connection(rest));
    const current = new CurrentKernel(app.shell);
    current.changed.connect(({ kernelId, path }) =>
      model.setCurrent(kernelId, path)
    );
    return {
      model,
      rest,
      current,
      commands: app.commands,
      trans: language.load('jupyter_gpudask'),
      language: language.languageCode || 'en' // not in JupyterLab 4.2
    };
  }
};

/**
 * A plugin that uses the shared service.
 *
 * @param name - the end of its id
 * @param description - what it does
 * @param tokens - the services that it uses if there are any
 * @param activate - gets these in the same order
 */
function plugin<T extends unknown[]>(
  name: string,
  description: string,
  tokens: { [Index in keyof T]: Token<T[Index]> },
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    ...services: { [Index in keyof T]: T[Index] | null }
  ) => unknown
): JupyterFrontEndPlugin<void> {
  return {
    id: `jupyter-gpudask:${name}`,
    description,
    autoStart: true,
    requires: [IGpuDask],
    optional: [...tokens],
    activate: activate as JupyterFrontEndPlugin<void>['activate']
  };
}

/** Add commands to the palette. */
function offer(
  palette: ICommandPalette | null,
  { trans }: IGpuDask,
  ...ids: string[]
): void {
  const category = trans.__('GPU Dask');
  ids.forEach(command => palette?.addItem({ command, category }));
}

const commands = plugin<[ILabShell, ILayoutRestorer, ICommandPalette]>(
  'commands',
  'Commands that start, stop and show Dask clusters.',
  [ILabShell, ILayoutRestorer, ICommandPalette],
  (app, gpuDask, labShell, restorer, palette) => {
    const { rest, trans } = gpuDask;
    const actions = async (): Promise<ClusterActions> => {
      const { ClusterActions } = await import('./cluster/actions');
      return new ClusterActions(gpuDask);
    };
    const { baseUrl } = rest.settings;
    const tabs = new DashboardTabs(gpuDask, app.shell, baseUrl);
    // Notebook 7 shows one document in a page: it has no tabs.
    const views = labShell ? tabs : new DashboardPages(baseUrl);
    const showLogs = async (cluster: ICluster): Promise<void> => {
      const { LogsTab, logsId, logsMode } = await import('./logs/tab');
      const id = logsId(cluster);
      // The down area of Notebook 7 is below its document.
      const area = labShell ? 'main' : 'down';
      if (![...app.shell.widgets(area)].some(widget => widget.id === id)) {
        app.shell.add(new LogsTab(gpuDask, cluster), area, {
          type: 'GPU Dask Logs',
          mode: logsMode(app.shell.currentWidget)
        });
      }
      app.shell.activateById(id);
    };
    const added = addClusterCommands(gpuDask, actions, views, showLogs);
    app.commands.addCommand(CommandIDs.closePlots, {
      label: trans.__('Close Dask Plots'),
      describedBy: { args: NO_ARGS },
      isEnabled: () => tabs.tracker.size > 0,
      execute: () => tabs.tracker.filter(() => true).forEach(tab => tab.close())
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
    offer(palette, gpuDask, ...added, CommandIDs.closePlots);
  }
);

const panel = plugin<[ITranslator, ILayoutRestorer, ICommandPalette]>(
  'panel',
  'A left sidebar panel for GPUs and the Dask clusters on them.',
  [ITranslator, ILayoutRestorer, ICommandPalette],
  (app, gpuDask, translator, restorer, palette) => {
    const { trans } = gpuDask;
    const sidePanel = createPanel(gpuDask, translator ?? nullTranslator);
    // JupyterLab moves all widgets of a type to the sidebar that the user chooses: no tab has this one.
    app.shell.add(sidePanel, 'left', { rank: 600, type: 'GPU Dask' });
    if (restorer) {
      restorer.add(sidePanel, sidePanel.id);
    } else {
      keepOpen(sidePanel, app);
    }
    const show = trans.__('Show GPU Dask Panel');
    app.commands.addCommand(CommandIDs.showPanel, {
      label: args => (args.isLauncher ? trans.__('GPU Dask') : show),
      caption: args =>
        args.isLauncher
          ? show
          : trans.__(
              'Move the focus to the GPU Dask panel in the left sidebar, or back to the document'
            ),
      icon: args => (args.isLauncher ? launcherIcon : gpuDaskIcon),
      describedBy: {
        args: {
          ...NO_ARGS,
          properties: {
            isLauncher: {
              type: 'boolean',
              description: 'Whether the command is shown in the launcher.'
            }
          }
        }
      },
      execute: () => {
        if (sidePanel.node.contains(document.activeElement)) {
          app.shell.currentWidget?.activate();
        } else {
          app.shell.activateById(sidePanel.id);
        }
      }
    });
    offer(palette, gpuDask, CommandIDs.showPanel);
  }
);

const toolbar = plugin<[IToolbarWidgetRegistry, ICommandPalette, ITranslator]>(
  'toolbar',
  'The state of a notebook’s cluster in its toolbar.',
  [IToolbarWidgetRegistry, ICommandPalette, ITranslator],
  (_, gpuDask, registry, palette, translator) => {
    const acceleration = new Acceleration();
    addKernelCommands(gpuDask, acceleration, translator ?? nullTranslator);
    offer(palette, gpuDask, CommandIDs.runOnGpus, CommandIDs.accelerate);
    showProgressInTitle(gpuDask);
    registry?.addFactory<Widget & { sessionContext: ISessionContext }>(
      'Notebook',
      'gpudask-cluster',
      ({ sessionContext }) => {
        acceleration.watch(sessionContext);
        return createClusterButton(gpuDask, sessionContext, acceleration);
      }
    );
  }
);

const statusBar = plugin<[IStatusBar]>(
  'status',
  'The GPUs of the current notebook’s cluster in the status bar.',
  [IStatusBar],
  (_, gpuDask, statusBar) => {
    statusBar?.registerStatusItem(
      'jupyter-gpudask:status',
      createStatusItem(gpuDask)
    );
  }
);

const settings = plugin<[ISettingRegistry]>(
  'settings',
  'The settings of GPU Dask.',
  [ISettingRegistry],
  async (_, { model }, registry) => {
    if (registry) {
      model.settings.follow(await registry.load(settings.id));
    }
  }
);

const notifications = plugin<[]>(
  'notifications',
  'Notifications for clusters that fail, and workers that are lost.',
  [],
  (app, gpuDask) => {
    const { model } = gpuDask;
    const isPanelVisible = (): boolean =>
      [...app.shell.widgets('left')].some(
        widget => widget.id === PANEL_ID && widget.isVisible
      );
    // The first states are no events, and before them there is nothing to load the notifier for.
    const load = async (known: ICluster[]): Promise<void> => {
      const { Notifier } = await import('./notifications/notifier');
      // eslint-disable-next-line jupyter/require-disposable-ownership -- lives as long as the application
      new Notifier(gpuDask, isPanelVisible, known);
    };
    const onChanged = (): void => {
      if (model.clusters.size > 0) {
        model.changed.disconnect(onChanged);
        void load([...model.clusters.values()]);
      }
    };
    model.changed.connect(onChanged);
  }
);

const running = plugin<[IRunningSessionManagers]>(
  'running',
  'Lists the clusters in the panel of running terminals and kernels.',
  [IRunningSessionManagers],
  (_, gpuDask, managers) => managers?.add(new RunningClusters(gpuDask))
);

const launcher = plugin<[ILauncher]>(
  'launcher',
  'Opens the panel from the launcher.',
  [ILauncher],
  (_, { trans }, launcher) =>
    launcher?.add({
      command: CommandIDs.showPanel,
      args: { isLauncher: true },
      category: trans.__('Other'),
      rank: 10
    })
);

const notebook = plugin<[INotebookTracker, ICommandPalette]>(
  'notebook',
  'Inserts code into notebooks and starts clusters with them.',
  [INotebookTracker, ICommandPalette],
  (app, gpuDask, tracker, palette) => {
    if (!tracker) {
      return;
    }
    addInsertCommands(gpuDask, tracker, app.shell);
    runRefusedCells(gpuDask, tracker);
    offer(palette, gpuDask, CommandIDs.insertCode, CommandIDs.tryExample);
    const watch = (panel: NotebookPanel): void => {
      startClusterOf(panel.sessionContext, gpuDask);
      endLinesOf(panel);
    };
    tracker.forEach(watch);
    tracker.widgetAdded.connect((_, panel) => watch(panel));
  }
);

const history = plugin<[ILabShell, ILayoutRestorer, ICommandPalette]>(
  'history',
  'A tab with the metrics of the last minutes of every GPU and worker.',
  [ILabShell, ILayoutRestorer, ICommandPalette],
  (app, gpuDask, labShell, restorer, palette) => {
    const { trans } = gpuDask;
    // eslint-disable-next-line jupyter/require-disposable-ownership -- lives as long as the application
    const tracker = new WidgetTracker<HistoryTab>({
      namespace: 'jupyter-gpudask-history'
    });
    app.commands.addCommand(CommandIDs.showHistory, {
      label: trans.__('Show GPU History'),
      caption: trans.__(
        'Show the metrics of the last minutes of every GPU and worker'
      ),
      icon: historyIcon,
      describedBy: { args: NO_ARGS },
      execute: async () => {
        const { HistoryTab } = await import('./history/tab');
        if (!tracker.currentWidget) {
          const tab = new HistoryTab(gpuDask);
          // Notebook 7 shows one document in a page; the down area is below it.
          const area = labShell ? 'main' : 'down';
          app.shell.add(tab, area, { type: 'GPU History' });
          await tracker.add(tab);
        }
        app.shell.activateById(tracker.currentWidget?.id ?? '');
      }
    });
    offer(palette, gpuDask, CommandIDs.showHistory);
    if (labShell) {
      void restorer?.restore(tracker, {
        command: CommandIDs.showHistory,
        name: tab => tab.id
      });
    }
  }
);

export default [
  model,
  commands,
  panel,
  toolbar,
  statusBar,
  settings,
  notifications,
  running,
  launcher,
  notebook,
  history
];
