/**
 * How dashboards are opened: in tabs of JupyterLab, or in pages of the browser.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { DockLayout } from '@lumino/widgets';

import { ICluster } from '../model/api';
import { findNotebook } from '../notebook/currentKernel';
import { IGpuDask } from '../tokens';
import { clusterDashboard, dashboardUrl, IDashboard } from './dashboard';
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
    private readonly _baseUrl: string
  ) {}

  async open(dashboard: IDashboard): Promise<void> {
    const tab = this._find(dashboard) ?? (await this._add(dashboard));
    this._shell.activateById(tab.id);
  }

  async openLayout(
    cluster: ICluster,
    placed: IPlacedDashboard[]
  ): Promise<void> {
    const notebook = findNotebook(this._shell, cluster.kernel_id);
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
    this._shell.add(tab, 'main', { type: 'Dask Plots', ...place });
    await this.tracker.add(tab);
    return tab;
  }
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
}
