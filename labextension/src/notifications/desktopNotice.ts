/**
 * A notification of the desktop for a cell, and the permission for it.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification as Toast } from '@jupyterlab/apputils';
import { INotebookTracker, Notebook } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';

import { formatDuration } from '../format';

/** A cell that has ended. */
export interface IEndedCell {
  notebook: Notebook;
  /** How long it ran. */
  seconds: number;
  success: boolean;
}

/** Show a notification for a cell, if the browser permits it. */
export function showNotice(
  { notebook, seconds, success }: IEndedCell,
  tracker: INotebookTracker,
  shell: JupyterFrontEnd.IShell,
  trans: TranslationBundle
): void {
  const panel = tracker.find(({ content }) => content === notebook);
  if (!panel || permission() !== 'granted') {
    return;
  }
  const { label } = panel.title;
  const other = tracker.find(
    each => each !== panel && each.title.label === label
  );
  const name = other ? panel.context.path : label;
  const notice = new Notification(
    success
      ? trans.__('%1: a cell has finished', name)
      : trans.__('%1: a cell has failed', name),
    {
      body: trans.__('After %1', formatDuration(seconds, trans)),
      // A later notification of the same notebook replaces it.
      tag: panel.id
    }
  );
  notice.onclick = () => {
    window.focus();
    shell.activateById(panel.id);
    notice.close();
  };
}

/** Ask for the permission, if the user has not decided; say so if there is none. */
export async function requestPermission(
  trans: TranslationBundle
): Promise<void> {
  const answer =
    permission() === 'default'
      ? await Notification.requestPermission()
      : permission();
  if (answer === 'denied') {
    Toast.warning(
      // JupyterLab truncates messages after 140 characters.
      trans.__(
        'The browser blocks desktop notifications of this page. Allow them for this site; it needs HTTPS or localhost.'
      ),
      // Without this it is only listed behind the bell of the status bar.
      { autoClose: false }
    );
  }
}

/** Whether the browser permits notifications; a page without HTTPS may have no such interface. */
function permission(): NotificationPermission {
  return 'Notification' in window ? Notification.permission : 'denied';
}
