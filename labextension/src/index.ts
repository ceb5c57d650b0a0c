/**
 * @packageDocumentation
 * @module jupyter-gpudask
 */
import { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { commands } from './plugins/commands';
import { history } from './plugins/history';
import { launcher } from './plugins/launcher';
import { model } from './plugins/model';
import { notebook } from './plugins/notebook';
import { notifications } from './plugins/notifications';
import { panel } from './plugins/panel';
import { running } from './plugins/running';
import { settings } from './plugins/settings';
import { statusBar } from './plugins/statusBar';
import { toolbar } from './plugins/toolbar';

export { CommandIDs } from './commandIDs';

// Every token but our own is optional: a page of Notebook 7 lacks some of them.
const plugins: JupyterFrontEndPlugin<unknown>[] = [
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

export default plugins;
