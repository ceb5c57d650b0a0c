import {
  caretDownIcon,
  ellipsesIcon,
  listIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import type { MenuGroups } from '../cluster/menu';
import { limitOf } from '../cluster/offered';
import type { IAction } from '../cluster/snapshot';
import { CommandIDs } from '../commandIDs';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { useKeptFocus } from '../components/focus';
import { plotsIcon } from '../icons';
import { ICluster } from '../model/api';

const MORE: MenuGroups = [
  [
    CommandIDs.openLayout,
    CommandIDs.openDashboard,
    CommandIDs.closePlots,
    CommandIDs.scale,
    CommandIDs.release,
    CommandIDs.restart
  ],
  [CommandIDs.insertCode, CommandIDs.copyCode]
];

type CommandButtonProps = React.ComponentProps<typeof CommandButton>;

interface IActionsProps {
  cluster: ICluster;
  /** What starts it again. */
  starts: IAction[];
}

/** The buttons of a cluster; they are not rendered again when only metrics change. */
export const ClusterActions = React.memo(
  ActionButtons,
  (old, { cluster, starts }) =>
    JSON.stringify(old.starts.map(({ label }) => label)) ===
      JSON.stringify(starts.map(({ label }) => label)) &&
    (['status', 'name', 'reason', 'dashboard', 'joined', 'log'] as const).every(
      name => old.cluster[name] === cluster[name]
    )
);

function ActionButtons({ cluster, starts }: IActionsProps): JSX.Element {
  const { trans } = useGpuDask();
  const shared = {
    args: { kernelId: cluster.kernel_id },
    target: cluster.name
  };
  const limited = (
    command: string
  ): Pick<CommandButtonProps, 'command' | 'limit'> => ({
    command,
    limit: limitOf(command, cluster)
  });
  const isReady = cluster.status === 'ready';
  return (
    <div className="jp-GpuDask-actions">
      {isReady && (cluster.dashboard || cluster.limits.dashboard) && (
        <span className="jp-GpuDask-split">
          <CommandButton
            {...shared}
            {...limited(CommandIDs.openPlots)}
            label={trans.__('Plots')}
            icon={plotsIcon}
          />
          <CommandButton
            {...shared}
            {...limited(CommandIDs.choosePlot)}
            label={trans.__('Choose a plot')}
            icon={caretDownIcon}
            variant="icon"
          />
        </span>
      )}
      {starts.map(button => (
        <CommandButton key={button.command} {...shared} {...button} />
      ))}
      {(isReady || cluster.log) && (
        <CommandButton
          {...shared}
          command={CommandIDs.showLogs}
          label={trans.__('Logs')}
          icon={listIcon}
        />
      )}
      {(isReady || cluster.status === 'starting') && (
        <CommandButton
          {...shared}
          {...limited(CommandIDs.stop)}
          label={trans.__('Stop')}
          icon={stopIcon}
        />
      )}
      {isReady && <MoreButton cluster={cluster} />}
    </div>
  );
}

/** A button that opens a menu of the other commands. */
function MoreButton({ cluster }: { cluster: ICluster }): JSX.Element {
  const { commands, trans } = useGpuDask();
  const ref = useKeptFocus();
  return (
    <button
      ref={ref}
      type="button"
      className="jp-GpuDask-button jp-mod-icon jp-GpuDask-more"
      aria-haspopup="menu"
      aria-label={trans.__('More actions: %1', cluster.name)}
      title={trans.__('More actions')}
      onClick={({ currentTarget }) =>
        void import('../cluster/menu').then(({ openClusterMenu }) =>
          openClusterMenu(
            commands,
            MORE,
            cluster,
            { kernelId: cluster.kernel_id },
            currentTarget
          )
        )
      }
    >
      <ellipsesIcon.react tag="span" aria-hidden="true" />
    </button>
  );
}
