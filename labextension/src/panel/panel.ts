/**
 * The panel in the left sidebar.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';
import {
  addIcon,
  addToolbarButtonClass,
  CommandToolbarButton,
  PanelWithToolbar,
  ReactWidget,
  SidePanel,
  ToolbarButtonComponent
} from '@jupyterlab/ui-components';
import { Message, MessageLoop } from '@lumino/messaging';
import { AccordionPanel, Widget } from '@lumino/widgets';
import { createElement } from 'react';

import { CommandIDs } from '../commandIDs';
import { lazyView, LiveWidget } from '../components/liveWidget';
import { sum } from '../format';
import { gpuDaskIcon } from '../icons';
import { IGpuDask } from '../tokens';

const load = (): Promise<typeof import('./views')> => import('./views');
const ConnectionNotice = lazyView(async () => (await load()).ConnectionNotice);
const GpuSection = lazyView(async () => (await load()).GpuSection);
const ClusterSection = lazyView(async () => (await load()).ClusterSection);

/** What the button of the clusters offers. */
const STARTS = [[CommandIDs.startWithOptions, CommandIDs.startShared]];

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
  // A `ToolbarButton` would say that it is not pressed.
  const start = ReactWidget.create(
    createElement(ToolbarButtonComponent, {
      icon: addIcon,
      tooltip: trans.__('Start a cluster'),
      onClick: () =>
        void import('../cluster/menu').then(({ openClusterMenu }) =>
          openClusterMenu(commands, STARTS, undefined, {}, start.node)
        )
    })
  );
  clusters.toolbar.addItem('start', addToolbarButtonClass(start));
  const { settings } = gpuDask.model;
  const arrangeSections = (): void => {
    const { showGpus, showClusters, allowStart } = settings.value;
    start.setHidden(!allowStart);
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
  // It gets the focus of what is removed from it; browsers let the keyboard scroll it if nothing in it can be focused.
  section.node.tabIndex = -1;
  section.addWidget(body);
  return section;
}

/**
 * Give two sections the heights of their contents, until the user moves the handle between them.
 *
 * If both do not fit, each has at least half of the height, or as much as its content needs.
 *
 * @param panel - the panel of the sections
 * @param first - the content of the first section
 * @param second - the content of the second section
 */
export function fitSections(
  panel: AccordionPanel,
  first: Widget,
  second: Widget
): void {
  const fit = (): void => {
    // Not the heights of the sections, which are those before a change of the panel's height.
    const titles = sum(panel.titles.map(each => each.offsetHeight));
    // The handle between the sections counts too: the panel would divide the rest in proportion, and the first would be too low.
    const total = panel.node.clientHeight - titles - panel.spacing;
    const areBothOpen = panel.widgets.every(each => each.isVisible);
    if (panel.widgets.length === 2 && areBothOpen && total > 0) {
      const size = firstSize(
        total,
        first.node.offsetHeight,
        second.node.offsetHeight
      );
      panel.setRelativeSizes([size, total - size]);
    }
  };
  const observer = new ResizeObserver(fit);
  [panel, first, second].forEach(each => observer.observe(each.node));
  panel.handleMoved.connect(() => observer.disconnect());
  panel.disposed.connect(() => observer.disconnect());
}

/**
 * The height of the first section.
 *
 * @param total - the height of both
 * @param first - the height of the content of the first
 * @param second - the height of the content of the second
 */
export function firstSize(
  total: number,
  first: number,
  second: number
): number {
  const half = total / 2;
  return Math.min(first, total - Math.min(second, half));
}

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
