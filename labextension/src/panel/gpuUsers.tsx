import React from 'react';

import { holderName } from '../cluster/summary';
import { useGpuDask } from '../components/context';
import { formatBytes, sum } from '../format';
import { IGpu, IGpuUser } from '../model/api';

/** The clusters that hold the GPU, and other processes on it. */
export function GpuUsers({ gpu }: { gpu: IGpu }): JSX.Element {
  const { model, trans } = useGpuDask();
  const { showProcesses, units } = model.settings.value;
  const held = new Set(gpu.holders.map(holder => holder.kernel_id));
  const others = showProcesses
    ? gpu.users.filter(
        user => user.kernel_id === null || !held.has(user.kernel_id)
      )
    : [];
  if (gpu.holders.length === 0 && others.length === 0 && !gpu.hidden_use) {
    return (
      <p className="jp-GpuDask-free">
        {gpu.users.length > 0 ? trans.__('In use') : trans.__('Free')}
      </p>
    );
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
