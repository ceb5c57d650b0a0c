/**
 * Which commands of clusters, and which clusters, the settings let the front end offer.
 */
import { CommandIDs } from '../commandIDs';
import { ICluster, isShared } from '../model/api';
import { ISettings } from '../model/settings';
import { STARTS } from './snapshot';

const START_COMMANDS: readonly string[] = [
  CommandIDs.start,
  ...Object.values(STARTS).map(({ command }) => command),
  CommandIDs.startWithOptions,
  CommandIDs.startShared,
  CommandIDs.restart,
  CommandIDs.runOnGpus,
  CommandIDs.tryExample
];
const STOPS: readonly string[] = [
  CommandIDs.stop,
  CommandIDs.restart,
  CommandIDs.scale,
  CommandIDs.release
];
const DASHBOARDS: readonly string[] = [
  CommandIDs.openDashboard,
  CommandIDs.openPlots,
  CommandIDs.choosePlot
];

/** Whether a command starts, stops or changes a cluster. */
export function changesCluster(command: string): boolean {
  return START_COMMANDS.includes(command) || STOPS.includes(command);
}

/** Whether a cluster is that of another notebook than the current one. */
export function isOther(
  kernelId: string | null,
  currentId: string | null
): boolean {
  return kernelId !== currentId && !isShared(kernelId ?? '');
}

/**
 * Whether a command is offered.
 *
 * @param command - the id
 * @param isOthers - whether the cluster is that of another notebook than the current one
 * @param settings - the settings
 */
export function isOffered(
  command: string,
  isOthers: boolean,
  { allowStart, allowStop, otherClusters }: ISettings
): boolean {
  const isStart = START_COMMANDS.includes(command);
  const isStop = STOPS.includes(command);
  return !(
    (isStart && !allowStart) ||
    (isStop && !allowStop) ||
    ((isStart || isStop) && isOthers && otherClusters !== 'manage')
  );
}

/** Why a command is not possible with a cluster, as a sentence of its engine; empty if it is. */
export function limitOf(command: string, cluster?: ICluster): string {
  // Other actions have the name of their command: `gpudask:release-results` is `release`.
  const action = DASHBOARDS.includes(command)
    ? 'dashboard'
    : command.split(/[:-]/)[1];
  return cluster?.limits[action] ?? '';
}

/** Whether the cluster of a kernel is shown: that of each, or of the current one only. */
export function isShown(
  kernelId: string,
  currentId: string | null,
  { otherClusters }: ISettings
): boolean {
  return !isOther(kernelId, currentId) || otherClusters !== 'hide';
}

/** The clusters that are shown. */
export function shownClusters(
  clusters: Iterable<ICluster>,
  currentId: string | null,
  settings: ISettings
): ICluster[] {
  return [...clusters].filter(({ kernel_id: id }) =>
    isShown(id, currentId, settings)
  );
}
