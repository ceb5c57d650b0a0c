import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  ISessionContext,
  IToolbarWidgetRegistry
} from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../commandIDs';
import { addAccelerateCommand } from '../notebook/accelerateCommand';
import { Acceleration } from '../notebook/acceleration';
import { createClusterButton } from '../notebook/clusterButton';
import { IGpuDask } from '../tokens';

/** A plugin that adds a button to the toolbar of each notebook. */
export const toolbar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:toolbar',
  description: 'The state of a notebook’s cluster in its toolbar.',
  autoStart: true,
  requires: [IGpuDask],
  optional: [IToolbarWidgetRegistry, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    gpuDask: IGpuDask,
    registry: IToolbarWidgetRegistry | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const acceleration = new Acceleration();
    addAccelerateCommand(gpuDask, acceleration, translator ?? nullTranslator);
    palette?.addItem({
      command: CommandIDs.accelerate,
      category: gpuDask.trans.__('GPU Dask')
    });
    registry?.addFactory<Widget & { sessionContext: ISessionContext }>(
      'Notebook',
      'gpudask-cluster',
      ({ sessionContext }) => {
        acceleration.watch(sessionContext);
        return createClusterButton(gpuDask, sessionContext, acceleration);
      }
    );
  }
};
