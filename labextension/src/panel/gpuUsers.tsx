import React from 'react';

import { holderName } from '../cluster/names';
import { useGpuDask } from '../components/context';
import { formatBytes, sum } from '../format';
import { IGpu, IGpuUser } from '../model/api';
import { IGpuDask } from '../tokens';

/** Who uses a GPU, in a few words. */
export interface IUserSummary {
  kind: 'cluster' | 'process' | 'free';
  text: string;
}

/** The clusters that hold a GPU, or else the processes on it. */
export function userSummary(
  gpu: IGpu,
  { model, trans }: IGpuDask
): IUserSummary {
  if (gpu.holders.length > 0) {
    const names = gpu.holders.map(each => holderName(each, model.clusters));
    return { kind: 'cluster', text: names.join(', ') };
  }
  const isUsed = gpu.users.length > 0 || gpu.hidden_use;
  if (!isUsed) {
    return { kind: 'free', text: trans.__('Free') };
  }
  const [first, ...others] = otherProcesses(gpu, model.settings.value);
  if (!first) {
    return { kind: 'process', text: trans.__('In use') };
  }
  const name = first.notebook ?? first.name ?? trans.__('pid %1', first.pid);
  const text =
    others.length > 0 ? trans.__('%1, %2 more', name, others.length) : name;
  return { kind: 'process', text };
}

/** The processes on a GPU that do not belong to a cluster that holds it. */
function otherProcesses(
  gpu: IGpu,
  { showProcesses }: { showProcesses: boolean }
): IGpuUser[] {
  return showProcesses
    ? gpu.users.filter(user => !belongsToHolder(user, gpu))
    : [];
}

/** Whether a process belongs to a cluster that holds the GPU. */
function belongsToHolder({ kernel_id: id }: IGpuUser, gpu: IGpu): boolean {
  return id !== null && gpu.holders.some(holder => holder.kernel_id === id);
}

/** The clusters that hold the GPU and other processes on it, with their memory; nothing if the summary has it all. */
export function GpuUsers({ gpu }: { gpu: IGpu }): JSX.Element | null {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const others = otherProcesses(gpu, model.settings.value);
  const hasOwn = gpu.users.some(user => belongsToHolder(user, gpu));
  if (others.length === 0 && !gpu.hidden_use && !hasOwn) {
    return null;
  }
  return (
    <ul
      className="jp-GpuDask-holders"
      aria-label={trans.__('On GPU %1', gpu.index)}
    >
      {gpu.holders.map((holder, index) => {
        const own = gpu.users.filter(
          user => user.kernel_id && user.kernel_id === holder.kernel_id
        );
        const memory = sum(own.map(user => user.memory));
        return (
          <li key={`${holder.kernel_id} ${index}`} data-kind="cluster">
            <span className="jp-GpuDask-holder" title={holder.name}>
              {holderName(holder, model.clusters)}
            </span>
            <span className="jp-GpuDask-secondary">
              {holder.share && `${trans.__('shared')} `}
              {memory > 0 && formatBytes(memory, units)}
            </span>
          </li>
        );
      })}
      {others.map(user => (
        <OtherProcess key={user.pid} user={user} />
      ))}
      {gpu.hidden_use && <UnlistedProcesses gpu={gpu} />}
    </ul>
  );
}

/** The memory that belongs to none of the listed processes. */
function UnlistedProcesses({ gpu }: { gpu: IGpu }): JSX.Element {
  const { model, trans } = useGpuDask();
  const listed = sum(gpu.users.map(user => user.memory));
  return (
    <li
      data-kind="process"
      title={trans.__(
        'The driver does not list the processes that use this memory, such as those of other containers'
      )}
    >
      <span className="jp-GpuDask-holder">
        {trans.__('Unlisted processes')}
      </span>
      <span className="jp-GpuDask-secondary">
        {formatBytes(
          (gpu.memory_used ?? 0) - listed,
          model.settings.value.units
        )}
      </span>
    </li>
  );
}

function OtherProcess({ user }: { user: IGpuUser }): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const pid = trans.__('pid %1', user.pid);
  const program = user.notebook
    ? trans.__('Kernel of %1', user.notebook)
    : user.name;
  const name = program ? `${program}, ${pid}` : pid;
  const details = [
    user.user,
    user.memory === null ? null : formatBytes(user.memory, units)
  ].filter(Boolean);
  return (
    <li
      data-kind="process"
      title={
        user.notebook
          ? trans.__('Its cluster does not hold this GPU')
          : trans.__('Not a cluster of this server')
      }
    >
      <span className="jp-GpuDask-holder">{name}</span>
      <span className="jp-GpuDask-secondary">{details.join(', ')}</span>
    </li>
  );
}
