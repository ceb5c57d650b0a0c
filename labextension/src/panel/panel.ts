/**
 * The panel in the left sidebar.
 */
import { ITranslator } from '@jupyterlab/translation';
import {
  CommandToolbarButton,
  PanelWithToolbar,
  SidePanel
} from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { AccordionPanel, Widget } from '@lumino/widgets';

import { CommandIDs } from '../commandIDs';
import { lazyView } from '../components/lazyView';
import { LiveWidget } from '../components/liveWidget';
import { gpuDaskIcon } from '../icons';
import { IGpuDask } from '../tokens';
import { fitSections } from './sectionSizes';

const load = (): Promise<typeof import('./views')> => import('./views');
const ConnectionNotice = lazyView(async () => (await load()).ConnectionNotice);
const GpuSection = lazyView(async () => (await load()).GpuSection);
const ClusterSection = lazyView(async () => (await load()).ClusterSection);

/** The widget id of the panel, kept in saved layouts. */
export const PANEL_ID = 'jupyter-gpudask-panel';

/**
 * Create the panel with its sections.
 *
 * @param gpuDask - the shared service
 * @param translator - the translator
 * @returns a panel for the left area of the shell
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
  // The content is a region already, with a generic label.
  panel.content.node.setAttribute('aria-label', trans.__('GPU Dask'));
  panel.content.node.tabIndex = -1;
  panel.header.addWidget(new LiveWidget(gpuDask, ConnectionNotice));
  const gpuBody = new LiveWidget(gpuDask, GpuSection);
  const gpus = createSection(trans.__('GPUs'), gpuBody);
  gpus.toolbar.addItem(
    'history',
    new CommandToolbarButton({
      commands,
      id: CommandIDs.showHistory,
      label: ''
    })
  );
  panel.addWidget(gpus);
  const clusterBody = new LiveWidget(gpuDask, ClusterSection);
  const clusters = createSection(trans.__('Clusters'), clusterBody);
  clusters.toolbar.addItem(
    'start',
    new CommandToolbarButton({
      commands,
      id: CommandIDs.startWithOptions,
      label: ''
    })
  );
  const { settings } = gpuDask.model;
  const arrangeSections = (): void => {
    const { showGpus, showClusters } = settings.value;
    const shown = [
      ...(showGpus ? [gpus] : []),
      ...(showClusters ? [clusters] : [])
    ];
    const now = panel.widgets;
    if (
      now.length !== shown.length ||
      shown.some((each, at) => each !== now[at])
    ) {
      // All are added again, because the tab order is that in which they are added.
      [gpus, clusters].forEach(section => (section.parent = null));
      shown.forEach(section => panel.addWidget(section));
    }
  };
  settings.changed.connect(arrangeSections);
  arrangeSections();
  fitSections(panel.content as AccordionPanel, gpuBody, clusterBody);
  panel.disposed.connect(() => {
    settings.changed.disconnect(arrangeSections);
    gpus.dispose();
    clusters.dispose();
  });
  return panel;
}

/** A side panel that takes the focus when it is activated. */
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
  // A scrollable element must be focusable, and the section may have no focusable content.
  section.node.tabIndex = 0;
  section.addWidget(body);
  return section;
}
