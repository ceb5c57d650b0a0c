/**
 * Layouts of plots: which plots of a cluster are opened together, and where; and the palette in which they are searched.
 */
import { ModalCommandPalette, Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandPaletteSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Message } from '@lumino/messaging';
import { CommandPalette, Widget } from '@lumino/widgets';

import { rememberFocus } from '../components/focus';
import { ICluster, mayHaveGpus } from '../model/api';
import { RestClient } from '../model/rest';
import { ILayout, IPlotPlace } from '../model/settings';
import { fitted } from '../format';
import {
  clusterDashboard,
  dashboardUrl,
  IDashboard,
  IPlot,
  plotName
} from './dashboard';

/** The first page of the dashboard, which is no individual plot. */
const STATUS = 'status';

/** The layouts that are offered beside those of the settings. */
export const NAMED_LAYOUTS: { [name: string]: ILayout } = {
  Workers: {
    'task-stream': { mode: 'split-right' },
    'workers-memory': { mode: 'split-bottom', ref: 'task-stream' },
    progress: { mode: 'split-right', ref: 'workers-memory' }
  },
  Status: { status: { mode: 'split-right' } }
};

/** A dashboard, and where it is placed. */
export interface IPlacedDashboard {
  dashboard: IDashboard;
  mode: NonNullable<IPlotPlace['mode']>;
  /** The dashboard beside which it is placed, which comes before it; undefined for the notebook. */
  beside?: IPlacedDashboard;
}

/** The dashboards of a layout, and what of the layout cannot be shown. */
export interface IPlacedLayout {
  dashboards: IPlacedDashboard[];
  /** The names that no plot has, and those of plots that cannot be placed beside another one: they are placed beside the notebook. */
  wrong: string[];
}

/** The plots of the default layout that a cluster has, in their order. */
export function favorites(layout: ILayout, plots: IPlot[]): IPlot[] {
  return Object.keys(layout).flatMap(
    name => plots.find(plot => plotName(plot.path) === plotName(name)) ?? []
  );
}

/**
 * Place the plots of a layout.
 *
 * A plot beside another one that the cluster does not have takes the place of that one.
 *
 * @param layout - the layout
 * @param cluster - the cluster
 * @param plots - its individual plots
 */
export function placeLayout(
  layout: ILayout,
  cluster: ICluster,
  plots: IPlot[]
): IPlacedLayout {
  const places = new Map(
    Object.entries(layout).map(([name, place]) => [plotName(name), place])
  );
  const found = new Map<string, IDashboard>(
    plots.map(plot => [plotName(plot.path), clusterDashboard(cluster, plot)])
  );
  found.set(STATUS, clusterDashboard(cluster));
  const placed = new Map<string, IPlacedDashboard>();
  const result: IPlacedLayout = { dashboards: [], wrong: [] };

  const isOnCpu = !mayHaveGpus(cluster.engine) && !cluster.joined;
  const isShown = (name: string): boolean =>
    found.has(name) && !(isOnCpu && isOfGpus(name));

  /** Place a plot after the one beside which it is; `after` are those that wait for it. */
  const place = (name: string, after: string[] = []): IPlacedDashboard => {
    const known = placed.get(name);
    if (known) {
      return known;
    }
    const { mode = 'split-right', ref } = places.get(name) ?? {};
    const waiting = [...after, name];
    let position: Omit<IPlacedDashboard, 'dashboard'> = { mode };
    const other = ref && plotName(ref);
    if (other && (waiting.includes(other) || !places.has(other))) {
      result.wrong.push(`${name} (${other})`);
    } else if (other) {
      const beside = place(other, waiting);
      position = isShown(other) ? { mode, beside } : beside;
    }
    const dashboard = found.get(name) ?? clusterDashboard(cluster);
    const entry = { ...position, dashboard };
    placed.set(name, entry);
    if (isShown(name)) {
      result.dashboards.push(entry);
    } else if (!found.has(name)) {
      result.wrong.push(name);
    }
    return entry;
  };

  [...places.keys()].forEach(name => place(name));
  return result;
}

/** Report what of a layout cannot be shown. */
export function reportProblems(
  name: string,
  { wrong }: IPlacedLayout,
  trans: TranslationBundle
): void {
  if (wrong.length > 0) {
    Notification.warning(
      fitted([name, wrong.join(', ')], (...names) =>
        trans.__(
          'The layout %1 in the settings has plots that do not exist, or cannot be placed there: %2',
          ...names
        )
      ),
      // Without this a notification is only listed behind the bell of the status bar.
      { autoClose: 10000 }
    );
  }
}

/** Whether a plot is empty on a cluster without GPUs. */
function isOfGpus(name: string): boolean {
  return /^(gpu|rmm)-/.test(name);
}

/** More than Dask has. */
const MAX_PLOTS = 200;
const MAX_TITLE = 100;

/** List the individual plots of the cluster of a kernel, sorted by title. */
export async function listPlots(
  rest: RestClient,
  kernelId: string
): Promise<IPlot[]> {
  const url = dashboardUrl(
    rest.settings.baseUrl,
    kernelId,
    'individual-plots.json'
  );
  const paths: { [title: string]: unknown } = await (
    await rest.fetch(url)
  ).json();
  return Object.entries(paths)
    .filter(isPlot)
    .slice(0, MAX_PLOTS)
    .map(([title, path]) => ({
      title: title
        .replace(/^Individual /, '')
        .replace(/\b(Cpu|Gpu|Rmm)\b/g, word => word.toUpperCase()),
      path
    }))
    .sort((one, other) => one.title.localeCompare(other.title));
}

/** Whether a title and a path are of a plot: what a cluster of somebody else reports leads nowhere else. */
function isPlot(entry: [string, unknown]): entry is [string, string] {
  const [title, path] = entry;
  return (
    title.length <= MAX_TITLE &&
    typeof path === 'string' &&
    /^\/[\w-]{1,100}$/.test(path)
  );
}

/** The one category of the palette, which JupyterLab hides. */
const CATEGORY = 'plots';

export interface IPaletteEntry {
  label: string;
  open: () => unknown;
}

/**
 * Open a palette in which a plot or a layout can be searched.
 *
 * @param label - what is searched
 * @param entries - what is listed, without the categories that JupyterLab hides
 * @returns the palette, which is disposed when it is closed
 */
export function openPlotPalette(
  label: string,
  entries: IPaletteEntry[]
): Widget {
  const commands = new CommandRegistry();
  const palette = new CommandPalette({
    commands,
    renderer: CommandPaletteSvg.defaultRenderer
  });
  palette.inputNode.placeholder = label;
  palette.inputNode.setAttribute('aria-label', label);
  entries.forEach(({ label, open }, rank) => {
    const command = `${rank}`;
    commands.addCommand(command, {
      label,
      describedBy: {
        args: { type: 'object', properties: {}, additionalProperties: false }
      },
      execute: open
    });
    palette.addItem({ command, category: CATEGORY, rank });
  });
  const modal = new DisposedPalette({ commandPalette: palette });
  modal.id = 'jupyter-gpudask-plots';
  modal.attach();
  modal.activate();
  return modal;
}

/** A palette that is disposed when it is closed; the focus moves back to where it was. */
class DisposedPalette extends ModalCommandPalette {
  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    requestAnimationFrame(() => {
      this.dispose();
      this._giveFocusBack();
    });
  }

  private readonly _giveFocusBack = rememberFocus();
}
