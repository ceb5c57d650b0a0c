/**
 * The views of the button in the notebook toolbar and of the item of the status bar, loaded when one is first visible.
 */
import { ISessionContext } from '@jupyterlab/apputils';
import { ToolbarButtonComponent } from '@jupyterlab/ui-components';
import React, { useRef } from 'react';

import '../../style/toolbar.css';

import type { MenuGroups } from '../cluster/menu';
import {
  currentGpus,
  ISnapshot,
  reasonText,
  sharedActions,
  snapshot,
  STARTS
} from '../cluster/snapshot';
import { CommandIDs } from '../commandIDs';
import { ClusterBadge } from '../components/clusterName';
import { useGpuDask } from '../components/liveWidget';
import { StateIcon } from '../components/stateLabel';
import { formatUsage, joinItems, sum } from '../format';
import { gpuDaskIcon } from '../icons';
import { IGpuDask } from '../tokens';
import { Acceleration } from './acceleration';
import { isKernelStarting } from './currentKernel';

interface IClusterButtonProps {
  session: ISessionContext;
  acceleration: Acceleration;
}

/** The state of the cluster of a notebook, with a menu. */
export function ClusterButton({
  session,
  acceleration
}: IClusterButtonProps): JSX.Element {
  const gpuDask = useGpuDask();
  const node = useRef<HTMLSpanElement>(null);
  const { model, trans } = gpuDask;
  const kernelId = session.session?.kernel?.id ?? '';
  const cluster = model.clusters.get(kernelId);
  const now = snapshot(cluster, gpuDask);
  const isAutomatic = cluster?.status === 'ready' && cluster.automatic;
  const isAccelerated = acceleration.isOn(kernelId);
  const sentences = [
    stateText(now, session, gpuDask),
    now.progress && joinItems([now.progress.done, now.progress.left]),
    isAutomatic &&
      trans.__('Every cell that uses Dask runs on it, by %gpudask on'),
    isAccelerated &&
      trans.__('pandas and scikit-learn run on a GPU, by %gpudask accelerate'),
    reasonText(now)
  ];
  const label = [
    now.progress
      ? trans.__('%1 %', now.progress.percent)
      : now.kind !== 'off' && now.short,
    isAutomatic && trans.__('on'),
    isAccelerated && trans.__('accelerated')
  ]
    .filter(Boolean)
    .join(' · ');
  return (
    <span
      className="jp-GpuDask-toolbarState"
      data-kind={now.kind}
      data-stale={model.isStale}
      ref={node}
    >
      <ToolbarButtonComponent
        icon={gpuDaskIcon}
        label={label}
        tooltip={sentences.filter(Boolean).join('. ')}
        aria-haspopup="menu"
        onClick={() =>
          void import('../cluster/menu').then(({ openClusterMenu }) =>
            openClusterMenu(
              gpuDask.commands,
              [...MENU.slice(0, 2), sharedActions(gpuDask), ...MENU.slice(2)],
              cluster,
              kernelId ? { kernelId } : {},
              node.current
            )
          )
        }
      />
      <StateIcon kind={now.kind} />
      <ClusterBadge kernelId={kernelId} />
    </span>
  );
}

function stateText(
  now: ISnapshot,
  session: ISessionContext,
  { model, trans }: IGpuDask
): string {
  if (model.isStale) {
    return trans.__('GPU Dask: no data from the server');
  }
  if (model.status.kind === 'no-server') {
    return trans.__('GPU Dask: the server extension is missing');
  }
  if (!model.gpus) {
    return trans.__('GPU Dask: connecting to the server');
  }
  if (isKernelStarting(session)) {
    return trans.__('GPU Dask: the kernel is starting');
  }
  return now.engine
    ? trans.__('Cluster of this notebook: %1, %2', now.state, now.engine)
    : trans.__('Cluster of this notebook: %1', now.state);
}

const MENU: MenuGroups = [
  [CommandIDs.runOnGpus],
  [
    CommandIDs.start,
    ...Object.values(STARTS).map(({ command }) => command),
    CommandIDs.startWithOptions,
    CommandIDs.startShared,
    CommandIDs.scale,
    CommandIDs.restart,
    CommandIDs.stop
  ],
  [
    CommandIDs.openPlots,
    CommandIDs.choosePlot,
    CommandIDs.openDashboard,
    CommandIDs.showLogs
  ],
  [CommandIDs.insertCode, CommandIDs.copyCode],
  [CommandIDs.accelerate],
  [CommandIDs.showPanel]
];

/** The mean utilization and the total memory of these GPUs. */
export function StatusItem(): JSX.Element | null {
  const gpuDask = useGpuDask();
  const { commands, model, trans } = gpuDask;
  const { units } = model.settings.value;
  const gpus = currentGpus(gpuDask);
  if (gpus.length === 0) {
    return null;
  }
  const busy = sum(gpus.map(gpu => gpu.utilization)) / gpus.length;
  const used = sum(gpus.map(gpu => gpu.memory_used));
  const total = sum(gpus.map(gpu => gpu.memory_total));
  return (
    <button
      type="button"
      className="jp-GpuDask-statusItem"
      data-stale={model.isStale}
      title={
        model.isStale
          ? trans.__('No data from the server; show the panel')
          : trans.__('The GPUs of this notebook’s cluster; show the panel')
      }
      onClick={() => void commands.execute(CommandIDs.showPanel)}
    >
      {trans._n('%1 GPU', '%1 GPUs', gpus.length)}{' '}
      {trans.__('%1 % busy', busy.toFixed(0))},{' '}
      {formatUsage(used, total, trans, units)}
    </button>
  );
}
