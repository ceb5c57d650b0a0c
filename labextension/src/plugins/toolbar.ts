import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISessionContext, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { createClusterButton } from '../notebook/clusterButton';
import { IGpuDask } from '../tokens';

/** A plugin that adds a button to the toolbar of each notebook. */
export const toolbar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-gpudask:toolbar',
  description: 'The state of a notebook’s cluster in its toolbar.',
  autoStart: true,
  requires: [IGpuDask],
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
