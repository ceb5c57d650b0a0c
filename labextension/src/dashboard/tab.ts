/**
 * A tab with a Dask dashboard.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { IFrame } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';
import { Panel } from '@lumino/widgets';

import '../../style/views.css';
import '../../style/buttons.css';
import '../../style/dashboard.css';

import { LiveWidget } from '../components/liveWidget';
import { gpuDaskIcon } from '../icons';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import {
  findCluster,
  clusterDashboard,
  dashboardUrl,
  hasDashboard,
  IDashboard
} from './dashboard';
import { dashboardNotice } from './notice';

const OWN_SANDBOX: IFrame.SandboxExceptions[] = [
  'allow-scripts',
  'allow-same-origin',
  'allow-downloads'
];

/** Pages of somebody else get no rights at the server, which also sends this as a policy with each page. */
const JOINED_SANDBOX: IFrame.SandboxExceptions[] = ['allow-scripts'];

/** Shows a notice when its cluster is closed, and loads the dashboard of the notebook's next cluster. */
export class DashboardTab extends MainAreaWidget<Panel> {
  /**
   * @param _gpuDask - the shared service
   * @param dashboard - the dashboard to show
   * @param _baseUrl - the base URL of the server
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
    _gpuDask.model.changed.connect(this._update, this);
    this._setTitle();
    this._update();
  }

  /** The dashboard that is shown. */
  get dashboard(): IDashboard {
    return this._dashboard;
  }

  /** Emitted when the cluster or the name of the notebook changes. */
  get dashboardChanged(): ISignal<this, void> {
    return this._dashboardChanged;
  }

  override dispose(): void {
    this._gpuDask.model.changed.disconnect(this._update, this);
    // It also clears the signals, after the tracker of the tabs has heard of it.
    super.dispose();
  }

  private _update(): void {
    const { plot } = this._dashboard;
    const { clusters, status } = this._gpuDask.model;
    const cluster = findCluster(this._dashboard, clusters);
    if (cluster) {
      this._setDashboard(clusterDashboard(cluster, plot, this.id));
    }
    const isAvailable = hasDashboard(cluster);
    this._frame.toggleClass(
      'jp-mod-stale',
      !isAvailable || status.kind === 'lost'
    );
    const process = processOf(cluster);
    if (isAvailable && process !== this._process) {
      this._process = process;
      this._frame.sandbox = cluster.joined ? JOINED_SANDBOX : OWN_SANDBOX;
      this._frame.url = dashboardUrl(
        this._baseUrl,
        cluster.kernel_id,
        plot?.path
      );
    }
  }

  private _setDashboard(dashboard: IDashboard): void {
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
  private readonly _frame = new IFrame({ sandbox: JOINED_SANDBOX });
  /** The process of the cluster whose dashboard is loaded. */
  private _process = '';
}

/** Identifies the process that serves the dashboard of a cluster. */
function processOf(cluster: ICluster | undefined): string {
  return cluster ? `${cluster.pid}${cluster.joined && cluster.since}` : '';
}
