/**
 * A tab with a Dask dashboard, and the notice above it.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { IFrame } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { Panel } from '@lumino/widgets';
import React from 'react';

import '../../style/views.css';
import '../../style/buttons.css';
import '../../style/dashboard.css';

import { subjectOf } from '../cluster/names';
import { reasonText, snapshot } from '../cluster/snapshot';
import { CommandButton } from '../components/commandButton';
import { LiveWidget, useGpuDask } from '../components/liveWidget';
import { Notice, RetryButton } from '../components/notice';
import { gpuDaskIcon } from '../icons';
import { ICluster, isShared } from '../model/api';
import { IGpuDask } from '../tokens';
import {
  clusterDashboard,
  dashboardUrl,
  findCluster,
  hasDashboard,
  IDashboard
} from './dashboard';

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
    this._notice = new LiveWidget(_gpuDask, () => (
      <div aria-live="polite">
        <Status dashboard={this._dashboard} isLoading={this._isLoading} />
      </div>
    ));
    this.content.addWidget(this._notice);
    this.content.addWidget(this._frame);
    const frame = this._frame.node.querySelector('iframe');
    frame?.addEventListener('load', () =>
      whenDrawn(frame.contentDocument, () => {
        this._isLoading = false;
        this._notice.update();
      })
    );
    _gpuDask.model.changed.connect(this._update, this);
    this._setTitle();
    this._update();
  }

  /** The dashboard that is shown. */
  get dashboard(): IDashboard {
    return this._dashboard;
  }

  /** Emitted when the cluster or the name of the notebook changes. */
  readonly dashboardChanged = new Signal<this, void>(this);

  override dispose(): void {
    this._gpuDask.model.changed.disconnect(this._update, this);
    // It also clears the signals, after the tracker of the tabs has heard of it.
    super.dispose();
  }

  private _update(): void {
    const { plot } = this._dashboard;
    const { model } = this._gpuDask;
    const { clusters } = model;
    const cluster = findCluster(this._dashboard, clusters);
    if (cluster) {
      this._setDashboard(clusterDashboard(cluster, plot, this.id));
    }
    const isAvailable = hasDashboard(cluster);
    this._frame.toggleClass('jp-mod-stale', !isAvailable || model.isStale);
    const process = processOf(cluster);
    if (isAvailable && process !== this._process) {
      this._process = process;
      this._frame.sandbox = cluster.joined ? JOINED_SANDBOX : OWN_SANDBOX;
      this._isLoading = true;
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
      this.dashboardChanged.emit();
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
  private _isLoading = true;
  private readonly _notice: LiveWidget;
  private readonly _frame = new IFrame({ sandbox: JOINED_SANDBOX });
  /** The process of the cluster whose dashboard is loaded. */
  private _process = '';
}

/**
 * Call a function once the plots of a page are drawn, which Bokeh does after it has loaded, into elements of the page.
 *
 * @param page - the page; null for one of another origin, of which only the end of loading is known
 * @param callback - the function
 */
function whenDrawn(page: Document | null, callback: () => void): void {
  const isDrawn = (): boolean => !page?.querySelector('[data-root-id]:empty');
  if (!page || isDrawn()) {
    return callback();
  }
  const observer = new MutationObserver(() => {
    if (isDrawn()) {
      observer.disconnect();
      callback();
    }
  });
  observer.observe(page, { childList: true, subtree: true });
}

/** Identifies the process that serves the dashboard of a cluster. */
function processOf(cluster: ICluster | undefined): string {
  return cluster ? `${cluster.pid}${cluster.joined && cluster.since}` : '';
}

/** The notice above a dashboard whose cluster is closed or not reachable. */
function Status({
  dashboard,
  isLoading
}: {
  dashboard: IDashboard;
  isLoading: boolean;
}): JSX.Element | null {
  const gpuDask = useGpuDask();
  const { model, trans } = gpuDask;
  if (model.isStale) {
    return (
      <Notice
        title={trans.__(
          'No data from the server; the dashboard is not up to date.'
        )}
      >
        <RetryButton />
      </Notice>
    );
  }
  const cluster = findCluster(dashboard, model.clusters);
  if (hasDashboard(cluster) || model.status.kind !== 'live') {
    return isLoading ? (
      <p className="jp-GpuDask-loading">{trans.__('Loading the dashboard…')}</p>
    ) : null;
  }
  const { name, kernelId } = dashboard;
  const subject = subjectOf({ name, kernel_id: kernelId }, trans);
  if (!cluster) {
    return (
      <Notice
        title={trans.__('%1 is closed.', subject)}
        hint={
          isShared(kernelId)
            ? ''
            : trans.__('The next cluster of the notebook will be shown here.')
        }
      />
    );
  }
  if (cluster.status === 'ready') {
    return <Notice title={trans.__('%1 has no dashboard.', subject)} />;
  }
  const now = snapshot(cluster, gpuDask);
  return (
    <Notice
      title={trans.__('%1: %2.', subject, now.state)}
      hint={reasonText(now)}
    >
      {now.starts.map(button => (
        <CommandButton
          key={button.command}
          {...button}
          args={{ kernelId: cluster.kernel_id }}
          target={name}
        />
      ))}
    </Notice>
  );
}
