import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { CurrentKernel } from '../notebook/currentKernel';
import { IGpuDask } from '../tokens';

/** A plugin that provides the state of the GPUs and clusters to the others. */
export const model: JupyterFrontEndPlugin<IGpuDask> = {
  id: 'jupyter-gpudask:model',
  description: 'The state of the GPUs and of the Dask clusters on them.',
  autoStart: true,
  provides: IGpuDask,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    const language = translator ?? nullTranslator;
    const { serverSettings } = app.serviceManager;
    const model = new GpuDaskModel(
      new Connection(new RestClient(serverSettings))
    );
    const current = new CurrentKernel(app.shell);
    current.changed.connect(({ kernelId, path }) =>
      model.setCurrent(kernelId, path)
    );
    return {
      model,
      current,
      commands: app.commands,
      trans: language.load('jupyter_gpudask'),
      language: language.languageCode
    };
  }
};
