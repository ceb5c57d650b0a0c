/**
 * How dashboards are opened: in tabs of JupyterLab, or in pages of the browser.
 */
import { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { DockLayout, Widget } from '@lumino/widgets';

import { ICluster } from '../model/api';
import { ILayout } from '../model/settings';
import { hasKernel } from '../notebook/currentKernel';
import { IGpuDask } from '../tokens';
import {
  clusterDashboard,
  dashboardUrl,
  IDashboard,
  plotName
} from './dashboard';
import type { IPlacedDashboard } from './layout';
import type { DashboardTab } from './tab';

/** Opens dashboards. */
export interface IDashboardViews {
  /** Whether several dashboards can be shown together. */
  readonly hasLayouts: boolean;
  /** Open a dashboard, or activate it if it is open. */
  open(dashboard: IDashboard): unknown;
  /** Open dashboards of a cluster where a layout places them. */
  openLayout(cluster: ICluster, placed: IPlacedDashboard[]): unknown;
  /** How the dashboards of a cluster were arranged when they were closed together. */
  keptLayout(cluster: ICluster): ILayout | undefined;
}

/** Where a tab is added. */
interface IPlace {
  mode?: DockLayout.InsertMode;
  /** The id of the tab beside it. */
  ref?: string;
}

/** Opens dashboards in tabs. */
export class DashboardTabs implements IDashboardViews {
  readonly hasLayouts = true;
  readonly tracker = new WidgetTracker<DashboardTab>({
    namespace: 'jupyter-gpudask-dashboards'
  });

  constructor(
    private readonly _gpuDask: IGpuDask,
    private readonly _shell: JupyterFrontEnd.IShell,
    private readonly _baseUrl: string,
    private readonly _labShell: ILabShell | null = null
  ) {}

  async open(dashboard: IDashboard): Promise<void> {
    const tab = this._find(dashboard) ?? (await this._add(dashboard));
    this._shell.activateById(tab.id);
  }

  async openLayout(
    cluster: ICluster,
    placed: IPlacedDashboard[]
  ): Promise<void> {
    const notebook = this._widgetOf(cluster.kernel_id);
    const isShown = ({ dashboard, mode }: IPlacedDashboard): boolean => {
      const tab = this._find(dashboard);
      return tab?.isVisible || (tab !== undefined && mode.startsWith('tab'));
    };
    // A layout that is shown stays as the user has arranged it.
    for (const { dashboard, mode, beside } of placed.every(isShown)
      ? []
      : placed) {
      const ref = beside ? this._find(beside.dashboard) : notebook;
      const place = { mode, ref: ref?.id };
      const tab = this._find(dashboard);
      if (tab) {
        this._shell.add(tab, 'main', place);
      } else {
        await this._add(dashboard, place);
      }
    }
    if (notebook) {
      this._shell.activateById(notebook.id);
    }
  }

  keptLayout({ notebooks, kernel_id: id }: ICluster): ILayout | undefined {
    const kept = this._kept.get(notebooks.at(0) ?? id);
    return kept && Object.keys(kept).length > 0 ? kept : undefined;
  }

  /** Close all dashboards, and keep how those of each cluster were arranged. */
  async closeAll(): Promise<void> {
    const { arrangementOf } = await import('./arrangement');
    const area = this._labShell?.saveLayout().mainArea?.dock?.main;
    const tabs = this.tracker.filter(() => true);
    for (const { dashboard } of tabs) {
      const { kernelId, notebooks = [] } = dashboard;
      const nameOf = (widget: Widget): string | undefined => {
        const shown = tabs.find(tab => tab === widget)?.dashboard;
        return shown?.kernelId === kernelId
          ? plotName(shown.plot?.path ?? 'status')
          : undefined;
      };
      const layout = arrangementOf(area, nameOf, this._widgetOf(kernelId));
      this._kept.set(notebooks.at(0) ?? kernelId, layout);
    }
    tabs.forEach(tab => tab.close());
  }

  private _find({ kernelId, plot }: IDashboard): DashboardTab | undefined {
    return this.tracker.find(
      ({ dashboard: shown }) =>
        shown.kernelId === kernelId && shown.plot?.path === plot?.path
    );
  }

  private async _add(
    dashboard: IDashboard,
    place: IPlace = {}
  ): Promise<DashboardTab> {
    const { DashboardTab } = await import('./tab');
    const tab = new DashboardTab(this._gpuDask, dashboard, this._baseUrl);
    tab.dashboardChanged.connect(changed => void this.tracker.save(changed));
    this._shell.add(tab, 'main', { type: 'GPU Dask', ...place });
    await this.tracker.add(tab);
    return tab;
  }

  /** The notebook or console of a kernel. */
  private _widgetOf(kernelId: string): Widget | undefined {
    return [...this._shell.widgets('main')].find(widget =>
      hasKernel(widget, kernelId)
    );
  }

  /** By the path of the notebook, whose next cluster may belong to another kernel. */
  private readonly _kept = new Map<string, ILayout>();
}

/** Opens dashboards in pages of the browser, for an application that shows one document in a page. */
export class DashboardPages implements IDashboardViews {
  readonly hasLayouts = false;

  constructor(private readonly _baseUrl: string) {}

  open({ kernelId, plot }: IDashboard): void {
    const isDark = document.body.dataset.jpThemeLight === 'false';
    const url = dashboardUrl(this._baseUrl, kernelId, plot?.path);
    window.open(url + (isDark ? '?theme=dark' : ''), '_blank', 'noopener');
  }

  /** Open the whole dashboard: each plot would be a page of its own. */
  openLayout(cluster: ICluster): void {
    this.open(clusterDashboard(cluster));
  }

  keptLayout(): undefined {
    return undefined;
  }
}
