import { JupyterFrontEnd } from '@jupyterlab/application';
import { Message, MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

/** The entry of the browser tab with the path of the page in which the panel was open. */
const KEY = 'jupyter-gpudask:panel';

/**
 * Keep the panel open when a page of Notebook 7 is reloaded: it restores no layout, and does not save its state database.
 *
 * @param panel - the panel, in the left area of the shell
 * @param app - the application
 */
export function keepOpen(panel: Widget, app: JupyterFrontEnd): void {
  const wasOpen = sessionStorage.getItem(KEY) === location.pathname;
  window.addEventListener('pagehide', () =>
    sessionStorage.setItem(KEY, panel.isVisible ? location.pathname : '')
  );
  const open = (): void => openWithoutFocus(panel, app.shell);
  // Notebook 7 hides its left area when something is added to it, as the table of contents is when a notebook is loaded.
  MessageLoop.installMessageHook(panel, (_, { type }) => {
    if (type === 'after-hide' && !panel.isHidden) {
      requestAnimationFrame(open);
    }
    return true;
  });
  if (wasOpen) {
    void app.started.then(open);
  }
}

/** Open the panel, which does not take the focus. */
function openWithoutFocus(panel: Widget, shell: JupyterFrontEnd.IShell): void {
  const isOther = (_: unknown, { type }: Message): boolean =>
    type !== 'activate-request';
  MessageLoop.installMessageHook(panel, isOther);
  shell.activateById(panel.id);
  MessageLoop.flush();
  MessageLoop.removeMessageHook(panel, isOther);
}
