/**
 * The front end of jupyter_gpudask: one array of small plugins, wiring only.
 */
import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { gpuDaskIcon } from './icon';
import { createPanel } from './panel';

/** The commands this extension adds. */
export namespace CommandIDs {
  /** Open the left sidebar on the GPU Dask panel. */
  export const showPanel = 'gpudask:show-panel';
}

/**
 * The sidebar panel and the command that opens it.
 *
 * Every token is optional: a Notebook 7 page has no layout restorer.
 */
const panel: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:panel',
  description: 'A left sidebar panel for GPUs and the Dask clusters on them.',
  autoStart: true,
  optional: [ITranslator, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_gpudask');
    const sidePanel = createPanel(translator ?? nullTranslator);

    app.shell.add(sidePanel, 'left', { rank: 600, type: 'GPU Dask' });
    restorer?.add(sidePanel, sidePanel.id);

    app.commands.addCommand(CommandIDs.showPanel, {
      label: trans.__('Show GPU Dask panel'),
      caption: trans.__('Show the GPU Dask panel in the left sidebar'),
      icon: gpuDaskIcon,
      describedBy: {
        args: { type: 'object', properties: {}, additionalProperties: false }
      },
      execute: () => app.shell.activateById(sidePanel.id)
    });
    palette?.addItem({
      command: CommandIDs.showPanel,
      category: trans.__('GPU Dask')
    });
  }
};

const plugins: JupyterFrontEndPlugin<void>[] = [panel];

export default plugins;
