/**
 * The commands of clusters: which cluster is meant, and whether it can be done now.
 */
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import {
  addIcon,
  copyIcon,
  launchIcon,
  listIcon,
  refreshIcon,
  runIcon,
  stopIcon
} from '@jupyterlab/ui-components';

import { CommandIDs } from '../commandIDs';
import { dashboardFor, IDashboard } from '../dashboard/dashboard';
import { scaleIcon } from '../icons';
import { ClusterStatus, ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import type { ClusterActions } from './actions';

/** What the commands of clusters take. */
export const KERNEL_ARGS = {
  type: 'object',
  properties: {
    kernelId: {
      type: 'string',
      description: 'Whose cluster is meant; by default the current kernel’s.'
    },
    since: {
      type: 'number',
      description: 'The `since` of the cluster; nothing is done to another one.'
    }
  },
  additionalProperties: false
};

/**
 * Add the commands of clusters.
 *
 * @param gpuDask - what is known
 * @param actions - what can be done; loaded when it is first asked for
 * @param open - shows a dashboard
 */
export function addClusterCommands(
  gpuDask: IGpuDask,
  actions: () => Promise<ClusterActions>,
  open: (dashboard: IDashboard) => void
): void {
  const { model, current, commands, trans } = gpuDask;

  const kernelOf = (args: ReadonlyPartialJSONObject): string | null =>
    typeof args.kernelId === 'string' ? args.kernelId : current.kernelId;
  const clusterOf = (args: ReadonlyPartialJSONObject): ICluster | undefined => {
    const cluster = model.clusters.get(kernelOf(args) ?? '');
    const isMeant = args.since === undefined || args.since === cluster?.since;
    return isMeant ? cluster : undefined;
  };
  const isOff = (args: ReadonlyPartialJSONObject): boolean => {
    const status = clusterOf(args)?.status ?? 'closed';
    const hasServer = !['no-server', 'refused'].includes(model.status.kind);
    const isOver = ['closed', 'failed'].includes(status);
    return hasServer && isOver && kernelOf(args) !== null;
  };
  const isIn =
    (...statuses: ClusterStatus[]) =>
    (args: ReadonlyPartialJSONObject): boolean => {
      const cluster = clusterOf(args);
      return cluster !== undefined && statuses.includes(cluster.status);
    };

  /** A command that does something with a cluster that is there. */
  const add = (
    id: string,
    statuses: ClusterStatus[],
    options: Omit<CommandRegistry.ICommandOptions, 'execute'>,
    act: (cluster: ICluster) => unknown
  ): void => {
    commands.addCommand(id, {
      ...options,
      describedBy: { args: KERNEL_ARGS },
      isEnabled: isIn(...statuses),
      execute: async args => {
        const cluster = clusterOf(args);
        if (cluster) {
          await act(cluster);
        }
      }
    });
  };

  /** A command that starts a cluster where there is none. */
  const addStart = (
    id: string,
    options: Omit<CommandRegistry.ICommandOptions, 'execute'>,
    start: (kernelId: string, name: string) => Promise<void>
  ): void => {
    commands.addCommand(id, {
      ...options,
      describedBy: { args: KERNEL_ARGS },
      isEnabled: isOff,
      execute: async args => {
        const kernelId = kernelOf(args);
        if (kernelId) {
          await start(kernelId, clusterOf(args)?.name ?? current.name);
        }
      }
    });
  };

  addStart(
    CommandIDs.start,
    {
      label: trans.__('Start Cluster'),
      caption: trans.__('Start the cluster of this notebook'),
      icon: runIcon
    },
    async (kernelId, name) => (await actions()).start(kernelId, name)
  );
  addStart(
    CommandIDs.startWithOptions,
    {
      label: trans.__('Start Cluster with Options…'),
      caption: trans.__(
        'Choose the GPUs and options of a cluster, and start it'
      ),
      icon: addIcon
    },
    async (kernelId, name) => (await actions()).startWithOptions(kernelId, name)
  );
  add(
    CommandIDs.scale,
    ['ready'],
    {
      label: trans.__('Scale Cluster…'),
      caption: trans.__('Have more or fewer workers'),
      icon: scaleIcon
    },
    async cluster => (await actions()).scale(cluster)
  );
  add(
    CommandIDs.stop,
    ['starting', 'ready'],
    { label: trans.__('Stop Cluster'), icon: stopIcon },
    async cluster => (await actions()).stop(cluster)
  );
  add(
    CommandIDs.restart,
    ['ready', 'failed', 'closed'],
    { label: trans.__('Restart Cluster'), icon: refreshIcon },
    async cluster => (await actions()).restart(cluster)
  );
  add(
    CommandIDs.showLogs,
    ['ready', 'failed', 'closed'],
    { label: trans.__('Show Logs of Cluster'), icon: listIcon },
    async cluster => (await actions()).showLogs(cluster)
  );
  add(
    CommandIDs.openDashboard,
    ['ready'],
    {
      label: trans.__('Open Dask Dashboard'),
      icon: launchIcon.bindprops({ stylesheet: 'menuItem' })
    },
    cluster => open(dashboardFor(cluster))
  );
  add(
    CommandIDs.choosePlot,
    ['ready'],
    { label: trans.__('Open Dask Plot…') },
    async cluster => (await actions()).choosePlot(cluster, open)
  );
  add(
    CommandIDs.copyCode,
    ['ready'],
    {
      label: trans.__('Copy Code That Gets the Dask Client'),
      icon: copyIcon
    },
    async () => (await actions()).copyCode()
  );

  commands.addCommand(CommandIDs.reconnect, {
    label: trans.__('Reconnect GPU Dask to the Server'),
    describedBy: {
      args: { type: 'object', properties: {}, additionalProperties: false }
    },
    execute: () => model.connection.retry()
  });

  const refresh = (): void => commands.notifyCommandChanged();
  model.clustersChanged.connect(refresh);
  model.connection.statusChanged.connect(refresh);
  current.changed.connect(refresh);
}
