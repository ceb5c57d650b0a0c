/**
 * The sidebar panel: its frame and sections.
 */
import { ITranslator } from '@jupyterlab/translation';
import {
  CommandToolbarButton,
  PanelWithToolbar,
  SidePanel
} from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { CommandIDs } from '../commandIDs';
import { ConnectionNotice } from '../components/connectionNotice';
import { LiveWidget } from '../components/liveWidget';
import { gpuDaskIcon } from '../icons';
import { IGpuDask } from '../tokens';
import { ClusterSection } from './clusterSection';
import { GpuSection } from './gpuSection';

/** The id of the panel in the shell, kept in saved layouts. */
export const PANEL_ID = 'jupyter-gpudask-panel';

/**
 * Make the sidebar panel with its two sections.
 *
 * @param gpuDask - what it shows
 * @param translator - turns every visible sentence into the user's language
 * @returns a panel that is ready to be added to a shell's left area
 */
export function createPanel(
  gpuDask: IGpuDask,
  translator: ITranslator
): SidePanel {
  const { trans, commands } = gpuDask;
  const panel = new FocusablePanel({ translator });
  panel.id = PANEL_ID;
  panel.addClass('jp-GpuDask');
  panel.title.icon = gpuDaskIcon;
  panel.title.caption = trans.__('GPU Dask');
  // The content is already a region, with a label that fits any side panel.
  panel.content.node.setAttribute('aria-label', trans.__('GPU Dask'));
  panel.content.node.tabIndex = -1;
  panel.header.addWidget(new LiveWidget(gpuDask, ConnectionNotice));
  const gpus = createSection(
    trans.__('GPUs'),
    new LiveWidget(gpuDask, GpuSection)
  );
  gpus.toolbar.addItem(
    'history',
    new CommandToolbarButton({
      commands,
      id: CommandIDs.showHistory,
      label: ''
    })
  );
  panel.addWidget(gpus);
  const clusters = createSection(
    trans.__('Clusters'),
    new LiveWidget(gpuDask, ClusterSection)
  );
  clusters.toolbar.addItem(
    'start',
    new CommandToolbarButton({
      commands,
      id: CommandIDs.startWithOptions,
      label: ''
    })
  );
  const { settings } = gpuDask.model;
  const arrange = (): void => {
    const wanted = settings.value.showGpus ? [gpus, clusters] : [clusters];
    if (panel.widgets.length !== wanted.length) {
      // Anew, for who goes through the page by keyboard meets them in the order in which they came.
      [gpus, clusters].forEach(section => (section.parent = null));
      wanted.forEach(section => panel.addWidget(section));
    }
  };
  settings.changed.connect(arrange);
  arrange();
  panel.disposed.connect(() => {
    settings.changed.disconnect(arrange);
    gpus.dispose();
    clusters.dispose();
  });
  return panel;
}

/** Takes the focus when it is activated, so that the keyboard goes on in it. */
class FocusablePanel extends SidePanel {
  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this.content.node.focus();
  }
}

function createSection(title: string, body: Widget): PanelWithToolbar {
  const section = new PanelWithToolbar();
  section.addClass('jp-GpuDask-section');
  section.title.label = title;
  // It scrolls, and there may be nothing in it that takes the focus.
  section.node.tabIndex = 0;
  section.addWidget(body);
  return section;
}
