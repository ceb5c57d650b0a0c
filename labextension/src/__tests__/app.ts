/**
 * An application with the parts that the plugins use.
 */
import { JupyterFrontEnd, LabShell } from '@jupyterlab/application';
import { ServerConnection } from '@jupyterlab/services';
import { waitForDialog } from '@jupyterlab/testing';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

export type TestApp = JupyterFrontEnd & { shell: LabShell };

export function startApp(serverSettings: ServerConnection.ISettings): TestApp {
  const parts = {
    shell: new LabShell({ waitForRestore: false }),
    commands: new CommandRegistry(),
    serviceManager: { serverSettings }
  };
  Widget.attach(parts.shell, document.body);
  return parts as unknown as TestApp;
}

/** Wait for a dialog, longer than the quarter of a second after which JupyterLab's function gives up. */
export function dialogShown(): Promise<void> {
  return waitForDialog(document.body, 30 * 1000);
}
