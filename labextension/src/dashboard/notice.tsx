import { refreshIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { reasonText, snapshot } from '../cluster/snapshot';
import { CommandIDs } from '../commandIDs';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { Notice } from '../components/notice';
import { findCluster, hasDashboard, IDashboard } from './dashboard';

/** Create the notice above a dashboard whose cluster is closed or not reachable. */
export function dashboardNotice(
  dashboard: () => IDashboard
): React.FunctionComponent {
  return function DashboardNotice(): JSX.Element {
    return (
      <div aria-live="polite">
        <Status dashboard={dashboard()} />
      </div>
    );
  };
}

function Status({ dashboard }: { dashboard: IDashboard }): JSX.Element | null {
  const gpuDask = useGpuDask();
  const { model, trans } = gpuDask;
  if (model.status.kind === 'lost') {
    return (
      <Notice
        title={trans.__(
          'The connection to the server is lost; the dashboard is not up to date.'
        )}
      >
        <CommandButton
          command={CommandIDs.reconnect}
          label={trans.__('Retry now')}
          icon={refreshIcon}
        />
      </Notice>
    );
  }
  const cluster = findCluster(dashboard, model.clusters);
  if (hasDashboard(cluster) || model.status.kind !== 'live') {
    return null;
  }
  const { name } = dashboard;
  if (!cluster) {
    return (
      <Notice
        title={trans.__('The cluster of %1 is closed.', name)}
        hint={trans.__('The next cluster of the notebook will be shown here.')}
      />
    );
  }
  if (cluster.status === 'ready') {
    return (
      <Notice title={trans.__('The cluster of %1 has no dashboard.', name)} />
    );
  }
  const now = snapshot(cluster, gpuDask);
  return (
    <Notice
      title={trans.__('The cluster of %1: %2.', name, now.state)}
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
