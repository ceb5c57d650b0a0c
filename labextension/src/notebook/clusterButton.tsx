/**
 * The button in a notebook's toolbar: the state of its cluster, and a menu.
 */
import { ISessionContext } from '@jupyterlab/apputils';
import { ToolbarButtonComponent } from '@jupyterlab/ui-components';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import { Menu } from '@lumino/widgets';
import React, { useRef } from 'react';

import { CommandIDs } from '../commandIDs';
import { useGpuDask } from '../components/context';
import { LiveWidget } from '../components/liveWidget';
import { StateIcon } from '../components/stateLabel';
import { endOf } from '../errors';
import { ISummary, summarize } from '../format';
import { gpuDaskIcon } from '../icons';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';

/** Make the button of one notebook. */
export function createClusterButton(
  gpuDask: IGpuDask,
  session: ISessionContext
): LiveWidget {
  const button = new LiveWidget(gpuDask, () => (
    <ClusterButton session={session} />
  ));
  button.addClass('jp-GpuDask-toolbarButton');
  session.kernelChanged.connect(button.update, button);
  return button;
}

function ClusterButton({ session }: { session: ISessionContext }): JSX.Element {
  const gpuDask = useGpuDask();
  const node = useRef<HTMLSpanElement>(null);
  const { model, trans } = gpuDask;
  const kernelId = session.session?.kernel?.id ?? '';
  const cluster = model.clusters.get(kernelId);
  const summary = summarize(cluster, model.gpus?.gpus ?? [], trans);
  const said = [sentenceOf(summary, gpuDask), reasonOf(cluster, gpuDask)];
  return (
    <span
      className="jp-GpuDask-toolbarState"
      data-kind={summary.kind}
      ref={node}
    >
      <ToolbarButtonComponent
        icon={gpuDaskIcon}
        label={summary.kind === 'off' ? '' : summary.short}
        tooltip={said.filter(Boolean).join('. ')}
        aria-haspopup="menu"
        onClick={() => openMenu(gpuDask, kernelId, node.current)}
      />
      <StateIcon kind={summary.kind} />
    </span>
  );
}

function sentenceOf(summary: ISummary, { model, trans }: IGpuDask): string {
  if (model.status.kind === 'no-server') {
    return trans.__('GPU Dask: its server extension is missing');
  }
  return summary.engine
    ? trans.__(
        'Cluster of this notebook: %1, %2',
        summary.state,
        summary.engine
      )
    : trans.__('Cluster of this notebook: %1', summary.state);
}

/** Why it is no more and what to do, or why the CPU stands in. */
function reasonOf(cluster: ICluster | undefined, { trans }: IGpuDask): string {
  if (!cluster?.reason) {
    return cluster?.stand_in ?? '';
  }
  const { reason, fix } = endOf(cluster, trans);
  return `${reason} ${fix}`.trim();
}

/** The menu of a kernel's cluster, under its button. */
function openMenu(
  { commands }: IGpuDask,
  kernelId: string,
  anchor: Element | null
): void {
  const args: ReadonlyJSONObject = kernelId ? { kernelId } : {};
  const menu = new Menu({ commands });
  menu.addClass('jp-GpuDask-menu');
  const ofCluster = [
    CommandIDs.start,
    CommandIDs.startWithOptions,
    CommandIDs.scale,
    CommandIDs.restart,
    CommandIDs.stop,
    CommandIDs.openDashboard,
    CommandIDs.choosePlot,
    CommandIDs.showLogs,
    CommandIDs.insertCode,
    CommandIDs.copyCode
  ];
  ofCluster
    .filter(command => commands.hasCommand(command))
    .filter(command => commands.isEnabled(command, args))
    .forEach(command => menu.addItem({ command, args }));
  if (menu.items.length > 0) {
    menu.addItem({ type: 'separator' });
  }
  menu.addItem({ command: CommandIDs.showPanel });
  const { left = 0, bottom = 0 } = anchor?.getBoundingClientRect() ?? {};
  menu.aboutToClose.connect(() => requestAnimationFrame(() => menu.dispose()));
  menu.open(left, bottom);
}
