/**
 * The commands of clusters.
 */
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import {
  addIcon,
  clearIcon,
  copyIcon,
  launchIcon,
  listIcon,
  refreshIcon,
  runIcon,
  stopIcon
} from '@jupyterlab/ui-components';

import { CommandIDs } from '../commandIDs';
import { clusterDashboard, hasDashboard } from '../dashboard/dashboard';
import { IDashboardViews } from '../dashboard/views';
import { plotsIcon, scaleIcon } from '../icons';
import { ClusterStatus, ICluster, isShared } from '../model/api';
import { IGpuDask } from '../tokens';
import type { ClusterActions } from './actions';
import { changesCluster, isOffered, isOther, limitOf } from './offered';
import { currentName } from './names';
import { resultBytes, STARTS } from './snapshot';

export const NO_ARGS = {
  type: 'object',
  properties: {},
  additionalProperties: false
};

/** The arguments of the cluster commands. */
export const KERNEL_ARGS = {
  ...NO_ARGS,
  properties: {
    kernelId: {
      type: 'string',
      description:
        'The kernel of the cluster; by default that of the current notebook.'
    },
    since: {
      type: 'number',
      description:
        'The `since` of the cluster; the command is disabled for any other cluster.'
    }
  }
};

/**
 * Add the commands of clusters.
 *
 * @param gpuDask - the shared service
 * @param actions - loads the actions when a command is first executed
 * @param views - opens dashboards
 * @param showLogs - opens the logs of a cluster
 * @returns the ids of the commands
 */
export function addClusterCommands(
  gpuDask: IGpuDask,
  actions: () => Promise<ClusterActions>,
  views: IDashboardViews,
  showLogs: (cluster: ICluster) => Promise<void>
): string[] {
  const { model, current, commands, trans } = gpuDask;
  const added: string[] = [CommandIDs.reconnect];

  const kernelOf = (args: ReadonlyPartialJSONObject): string | null =>
    typeof args.kernelId === 'string' ? args.kernelId : current.kernelId;
  const clusterOf = (args: ReadonlyPartialJSONObject): ICluster | undefined => {
    const cluster = model.clusters.get(kernelOf(args) ?? '');
    const isSame = args.since === undefined || args.since === cluster?.since;
    return isSame ? cluster : undefined;
  };
  const hasServer = (): boolean =>
    !['no-server', 'refused'].includes(model.status.kind);
  const canStart = (args: ReadonlyPartialJSONObject): boolean => {
    const status = clusterOf(args)?.status ?? 'closed';
    const isOver = ['closed', 'failed'].includes(status);
    return hasServer() && isOver && kernelOf(args) !== null;
  };

  /** The kernels whose clusters are being started, stopped or changed: a second click does nothing. */
  const changing = new Set<string | null>();

  /** Add a command that is possible if a condition holds, and locked while one of the kernel is carried out. */
  const addCommand = (
    id: string,
    options: Omit<CommandRegistry.ICommandOptions, 'execute'>,
    canExecute: (args: ReadonlyPartialJSONObject) => boolean,
    execute: (args: ReadonlyPartialJSONObject) => unknown
  ): void => {
    const isVisible = (args: ReadonlyPartialJSONObject): boolean =>
      isOffered(
        id,
        isOther(kernelOf(args), current.kernelId),
        model.settings.value
      );
    const isLocked = (args: ReadonlyPartialJSONObject): boolean =>
      changesCluster(id) && changing.has(kernelOf(args));
    added.push(id);
    commands.addCommand(id, {
      describedBy: { args: KERNEL_ARGS },
      ...options,
      isVisible,
      isEnabled: args => isVisible(args) && canExecute(args) && !isLocked(args),
      execute: async args => {
        if (isLocked(args)) {
          return;
        }
        const kernelId = changesCluster(id) ? kernelOf(args) : null;
        changing.add(kernelId);
        commands.notifyCommandChanged();
        try {
          await execute(args);
        } finally {
          changing.delete(kernelId);
          commands.notifyCommandChanged();
        }
      }
    });
  };

  /** Add a command that acts on a cluster with one of these statuses, if a condition holds. */
  const add = (
    id: string,
    statuses: ClusterStatus[],
    options: Omit<CommandRegistry.ICommandOptions, 'execute'>,
    act:
      | 'scale'
      | 'stop'
      | 'restart'
      | 'release'
      | 'keep'
      | ((cluster: ICluster, args: ReadonlyPartialJSONObject) => unknown),
    condition: (cluster: ICluster) => boolean = () => true
  ): void =>
    addCommand(
      id,
      options,
      args => {
        const cluster = clusterOf(args);
        return (
          cluster !== undefined &&
          !limitOf(id, cluster) &&
          statuses.includes(cluster.status) &&
          condition(cluster)
        );
      },
      async args => {
        const cluster = clusterOf(args);
        if (cluster) {
          await (typeof act === 'string'
            ? (await actions())[act](cluster)
            : act(cluster, args));
        }
      }
    );

  /** Add a command that starts a cluster for a kernel without one. */
  const addStart = (
    id: string,
    options: Omit<CommandRegistry.ICommandOptions, 'execute'>,
    act: 'start' | 'startWithOptions'
  ): void =>
    addCommand(id, options, canStart, async args => {
      const kernelId = kernelOf(args);
      if (kernelId) {
        const name = clusterOf(args)?.name ?? currentName(gpuDask);
        await (await actions())[act](kernelId, name);
      }
    });

  addStart(
    CommandIDs.start,
    {
      label: trans.__('Start Cluster'),
      caption: trans.__('Start the cluster of this notebook'),
      icon: runIcon
    },
    'start'
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
    'startWithOptions'
  );
  addCommand(
    CommandIDs.startShared,
    {
      label: trans.__('Start Shared Cluster…'),
      caption: trans.__(
        'Start a cluster that belongs to no notebook, and that several can use'
      ),
      icon: addIcon
    },
    hasServer,
    async () => (await actions()).startWithOptions('', '')
  );
  Object.entries(STARTS).forEach(([action, { command, label, spec }]) =>
    add(
      command,
      ['failed', 'closed'],
      { label: label(trans), icon: runIcon },
      async cluster => (await actions()).startAgain(cluster, spec),
      ({ error }) => Boolean(error?.actions.includes(action))
    )
  );
  add(
    CommandIDs.scale,
    ['ready'],
    {
      label: trans.__('Scale Cluster…'),
      caption: trans.__('Change the number of workers'),
      icon: scaleIcon
    },
    'scale'
  );
  add(
    CommandIDs.stop,
    ['starting', 'ready'],
    { label: trans.__('Stop Cluster'), icon: stopIcon },
    'stop'
  );
  add(
    CommandIDs.restart,
    ['ready', 'failed', 'closed'],
    { label: trans.__('Restart Cluster'), icon: refreshIcon },
    'restart'
  );
  add(
    CommandIDs.release,
    ['ready'],
    {
      label: trans.__('Release Results…'),
      caption: trans.__(
        'Release the results that the notebook holds on the workers'
      ),
      icon: clearIcon
    },
    'release',
    cluster => resultBytes(cluster) > 0 && !isShared(cluster.kernel_id)
  );
  add(
    CommandIDs.keep,
    ['ready'],
    {
      label: trans.__('Keep GPUs'),
      caption: trans.__('Keep the GPUs that somebody else waits for')
    },
    'keep',
    cluster => Boolean(cluster.given_over_at)
  );
  add(
    CommandIDs.showLogs,
    ['ready', 'failed', 'closed'],
    { label: trans.__('Show Cluster Logs'), icon: listIcon },
    showLogs
  );
  add(
    CommandIDs.openDashboard,
    ['ready'],
    {
      label: trans.__('Open Dask Dashboard'),
      icon: launchIcon.bindprops({ stylesheet: 'menuItem' })
    },
    cluster => views.open(clusterDashboard(cluster)),
    hasDashboard
  );
  add(
    CommandIDs.openPlots,
    ['ready'],
    {
      label: trans.__('Open Dask Plots'),
      caption: trans.__(
        'Open the plots of the setting “Plots” beside the notebook'
      ),
      icon: plotsIcon
    },
    async cluster => (await actions()).openPlots(cluster, views),
    hasDashboard
  );
  add(
    CommandIDs.openLayout,
    ['ready'],
    {
      label: trans.__('Open Layout of Dask Plots…'),
      describedBy: {
        args: {
          ...KERNEL_ARGS,
          properties: {
            ...KERNEL_ARGS.properties,
            layout: {
              type: 'string',
              description: 'The name of the layout; it is asked for by default.'
            }
          }
        }
      }
    },
    async (cluster, { layout }) =>
      (await actions()).openLayout(cluster, views, `${layout}`),
    cluster => views.hasLayouts && hasDashboard(cluster)
  );
  add(
    CommandIDs.choosePlot,
    ['ready'],
    { label: trans.__('Choose Dask Plot…') },
    async cluster => (await actions()).choosePlot(cluster, views),
    hasDashboard
  );
  add(
    CommandIDs.copyCode,
    ['ready'],
    {
      label: trans.__('Copy Dask Client Code'),
      icon: copyIcon
    },
    async cluster => (await actions()).copyCode(cluster)
  );

  commands.addCommand(CommandIDs.reconnect, {
    label: trans.__('Reconnect GPU Dask to the Server'),
    describedBy: { args: NO_ARGS },
    execute: () => model.connection.retry()
  });

  const refresh = (): void => commands.notifyCommandChanged();
  model.clustersChanged.connect(refresh);
  model.settings.changed.connect(refresh);
  model.connection.statusChanged.connect(refresh);
  current.changed.connect(refresh);
  return added;
}
