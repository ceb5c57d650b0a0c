/**
 * How dashboards are opened: in tabs of JupyterLab, or in pages of the browser.
 */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { DockLayout, Widget } from '@lumino/widgets';

import { ICluster } from '../model/api';
import { hasKernel } from '../notebook/currentKernel';
import { IGpuDask } from '../tokens';
import { clusterDashboard, dashboardUrl, IDashboard } from './dashboard';
import type { DashboardTab } from './tab';

/** Opens dashboards. */
export interface IDashboardViews {
  /** Open a dashboard, or activate it if it is open. */
  open(dashboard: IDashboard): unknown;
  /** Open plots of a cluster beside its notebook, one below the other. */
  openLayout(cluster: ICluster, plots: IDashboard[]): unknown;
}

/** Where a tab is added. */
interface IPlace {
  mode?: DockLayout.InsertMode;
  /** The id of the tab beside it. */
  ref?: string;
}

/** Opens dashboards in tabs. */
export class DashboardTabs implements IDashboardViews {
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

  async openLayout(cluster: ICluster, plots: IDashboard[]): Promise<void> {
    const notebook = this._notebookOf(cluster);
    let place: IPlace = { mode: 'split-right', ref: notebook?.id };
    for (const plot of plots) {
      const open = this._find(plot);
      if (open && !open.isVisible) {
        // It may be behind the notebook.
        this._shell.add(open, 'main', { ...place });
      }
      const tab = open ?? (await this._add(plot, place));
      place = { mode: 'split-bottom', ref: tab.id };
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
    this._shell.add(tab, 'main', { type: 'GPU Dask', ...place });
    await this.tracker.add(tab);
    return tab;
  }

  /** The notebook or console of a cluster. */
  private _notebookOf({ kernel_id: id }: ICluster): Widget | undefined {
    return [...this._shell.widgets('main')].find(widget =>
      hasKernel(widget, id)
    );
  }
}

/** Opens dashboards in pages of the browser, for an application that shows one document in a page. */
export class DashboardPages implements IDashboardViews {
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
