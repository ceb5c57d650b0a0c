/**
 * The front end of jupyter_gpudask: one array of small plugins, wiring only.
 *
 * Every token that is not our own is optional: a Notebook 7 page has not all of them.
 */
import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  ISessionContext,
  IToolbarWidgetRegistry
} from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from './commandIDs';
import { CurrentKernel } from './notebook/currentKernel';
import { gpuDaskIcon } from './icons';
import { Connection } from './model/connection';
import { GpuDaskModel } from './model/model';
import { RestClient } from './model/rest';
import { createPanel } from './panel/panel';
import { commands } from './plugins/commands';
import { historyTab } from './plugins/history';
import { launcher } from './plugins/launcher';
import { notebook } from './plugins/notebook';
import { notifications } from './plugins/notifications';
import { running } from './plugins/running';
import { settings } from './plugins/settings';
import { IGpuDaskToken } from './tokens';
import { createClusterButton } from './notebook/clusterButton';
import { IGpuDask } from './components/context';
import { LiveWidget } from './components/liveWidget';
import { currentGpus, StatusItem } from './notebook/statusItem';

export { CommandIDs } from './commandIDs';

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
      caption: trans.__(
        'Go to the GPU Dask panel in the left sidebar, and from it back to the document'
      ),
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
      execute: () => {
        if (sidePanel.node.contains(document.activeElement)) {
          app.shell.currentWidget?.activate();
        } else {
          app.shell.activateById(sidePanel.id);
        }
      }
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
