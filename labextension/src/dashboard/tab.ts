/**
 * A dashboard as a tab: it says when its cluster is gone, and shows the next one of the notebook.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { IFrame } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import { Panel } from '@lumino/widgets';

import { LiveWidget } from '../components/liveWidget';
import { gpuDaskIcon } from '../icons';
import { IGpuDask } from '../tokens';
import {
  clusterFor,
  dashboardFor,
  dashboardUrl,
  hasDashboard,
  IDashboard
} from './dashboard';
import { dashboardNotice } from './notice';

export class DashboardTab extends MainAreaWidget<Panel> {
  /**
   * @param _gpuDask - says what cluster there is
   * @param dashboard - what is shown
   * @param _baseUrl - of the server
   */
  constructor(
    private readonly _gpuDask: IGpuDask,
    dashboard: IDashboard,
    private readonly _baseUrl: string
  ) {
    super({ content: new Panel() });
    const { id = `jupyter-gpudask-dashboard-${UUID.uuid4()}` } = dashboard;
    this._dashboard = { ...dashboard, id };
    this.id = id;
    this.toolbar.hide();
    this.title.icon = gpuDaskIcon;
    this.title.closable = true;
    this.content.addClass('jp-GpuDask-dashboard');
    this.content.addWidget(
      new LiveWidget(
        _gpuDask,
        dashboardNotice(() => this._dashboard)
      )
    );
    this.content.addWidget(this._frame);
    _gpuDask.model.changed.connect(this._follow, this);
    this._setTitle();
    this._follow();
  }

  /** What it shows now. */
  get dashboard(): IDashboard {
    return this._dashboard;
  }

  /** It shows another cluster, or its notebook has another name. */
  get dashboardChanged(): ISignal<this, void> {
    return this._dashboardChanged;
  }

  override dispose(): void {
    this._gpuDask.model.changed.disconnect(this._follow, this);
    Signal.clearData(this);
    super.dispose();
  }

  private _follow(): void {
    const { plot } = this._dashboard;
    const { clusters, status } = this._gpuDask.model;
    const cluster = clusterFor(this._dashboard, clusters);
    if (cluster) {
      this._show(dashboardFor(cluster, plot, this.id));
    }
    const isThere = hasDashboard(cluster);
    this._frame.toggleClass('jp-mod-old', !isThere || status.kind === 'lost');
    if (isThere && cluster.pid !== this._pid) {
      this._pid = cluster.pid;
      this._frame.url = dashboardUrl(
        this._baseUrl,
        cluster.kernel_id,
        plot?.path
      );
    }
  }

  private _show(dashboard: IDashboard): void {
    const keyOf = ({ kernelId, name, notebooks }: IDashboard): string =>
      JSON.stringify([kernelId, name, notebooks]);
    if (keyOf(dashboard) !== keyOf(this._dashboard)) {
      this._dashboard = dashboard;
      this._setTitle();
      this._dashboardChanged.emit();
    }
  }

  private _setTitle(): void {
    const { trans } = this._gpuDask;
    const { name, plot } = this._dashboard;
    const title = plot
      ? trans.__('%1: %2', plot.title, name)
      : trans.__('Dask: %1', name);
    this.title.label = title;
    this._frame.node.querySelector('iframe')?.setAttribute('title', title);
  }

  private _dashboard: IDashboard;
  private readonly _dashboardChanged = new Signal<this, void>(this);
  private readonly _frame = new IFrame({
    sandbox: ['allow-scripts', 'allow-same-origin', 'allow-downloads']
  });
  /** Of the supervisor whose dashboard is in the frame. */
  private _pid: number | null = null;
}
