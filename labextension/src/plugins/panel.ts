import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../commandIDs';
import { gpuDaskIcon } from '../icons';
import { keepOpen } from '../panel/keepOpen';
import { createPanel } from '../panel/panel';
import { IGpuDask } from '../tokens';

/** A plugin that adds the sidebar panel and the command that shows it. */
export const panel: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:panel',
  description: 'A left sidebar panel for GPUs and the Dask clusters on them.',
  autoStart: true,
  requires: [IGpuDask],
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

    // JupyterLab moves all widgets of a type to the sidebar that the user chooses: no tab has this one.
    app.shell.add(sidePanel, 'left', { rank: 600, type: 'GPU Dask' });
    if (restorer) {
      restorer.add(sidePanel, sidePanel.id);
    } else {
      keepOpen(sidePanel, app);
    }

    app.commands.addCommand(CommandIDs.showPanel, {
      label: args =>
        args.isLauncher
          ? trans.__('GPU Dask')
          : trans.__('Show GPU Dask Panel'),
      caption: args =>
        args.isLauncher
          ? trans.__('Show GPU Dask Panel')
          : trans.__(
              'Move the focus to the GPU Dask panel in the left sidebar, or back to the document'
            ),
      icon: gpuDaskIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            isLauncher: {
              type: 'boolean',
              description: 'Whether the command is shown in the launcher.'
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
