import React from 'react';

import { useGpuDask } from '../components/context';
import { Notice } from '../components/notice';
import { endReason } from '../errors';
import { formatBytes } from '../format';
import { IGpu, IGpuList } from '../model/api';
import { LIST_GPUS_CODE } from '../snippets';
import { GpuRow } from './gpuRow';

/** With at most this many GPUs, the details of each are shown at first. */
const MAX_OPEN = 2;

/** The section of the GPUs. */
export function GpuSection(): JSX.Element {
  const { model, trans } = useGpuDask();
  const { status, gpus } = model;
  if (status.kind === 'no-server' || status.kind === 'refused') {
    return (
      <Notice
        title={trans.__('GPU metrics of the server are not available.')}
        hint={trans.__(
          'To list the GPUs without the server, run in a notebook cell:'
        )}
        code={LIST_GPUS_CODE}
      />
    );
  }
  if (!gpus) {
    return <p className="jp-GpuDask-loading">{trans.__('Loading GPUs…')}</p>;
  }
  const count = gpus.gpus.length;
  const why = endReason(gpus, trans);
  return (
    <div data-stale={status.kind === 'lost'}>
      {why.message ? (
        <Notice title={why.message} hint={why.fix} />
      ) : (
        count === 0 && (
          <Notice
            title={trans.__('This machine has no GPU.')}
            hint={trans.__('Clusters run the same code on the CPU stand-in.')}
          />
        )
      )}
      {groupByModel(gpus.gpus).map(group => (
        <GpuGroup
          key={group[0].uuid}
          gpus={group}
          areOpen={count <= MAX_OPEN}
        />
      ))}
      <WaitingLine waiting={gpus.waiting} />
    </div>
  );
}

/** The starts that stand in line for GPUs, unless the settings hide those of others. */
function WaitingLine({
  waiting
}: Pick<IGpuList, 'waiting'>): JSX.Element | null {
  const { model, trans } = useGpuDask();
  const { otherClusters } = model.settings.value;
  const places = waiting.flatMap(({ user, own, count }, index) =>
    own || otherClusters !== 'hide'
      ? trans._n('%2. %3: %1 GPU', '%2. %3: %1 GPUs', count, index + 1, user)
      : []
  );
  const title = trans.__('In line for GPUs');
  return places.length > 0 ? (
    <>
      <h3>{title}</h3>
      <ul className="jp-GpuDask-notes" aria-label={title}>
        {places.map(place => (
          <li key={place}>{place}</li>
        ))}
      </ul>
    </>
  ) : null;
}

/** Divide GPUs into runs with the same name and the same memory. */
export function groupByModel(gpus: IGpu[]): IGpu[][] {
  const groups: IGpu[][] = [];
  for (const gpu of gpus) {
    const group = groups.at(-1);
    const isSame =
      group?.[0].name === gpu.name &&
      group[0].memory_total === gpu.memory_total;
    if (group && isSame) {
      group.push(gpu);
    } else {
      groups.push([gpu]);
    }
  }
  return groups;
}

interface IGpuGroupProps {
  gpus: IGpu[];
  areOpen: boolean;
}

/** The GPUs of one model, below its name and memory. */
function GpuGroup({ gpus, areOpen }: IGpuGroupProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { name, memory_total: total } = gpus[0];
  const title = gpus.length > 1 ? trans.__('%1 × %2', gpus.length, name) : name;
  return (
    <>
      <div className="jp-GpuDask-gpuGroup">
        <h3 title={title}>{title}</h3>
        {total !== null && (
          <span className="jp-GpuDask-secondary">
            {formatBytes(total, model.settings.value.units)}
          </span>
        )}
      </div>
      <div className="jp-GpuDask-gpuHead" aria-hidden="true">
        <span>{trans.__('Busy')}</span>
        <span>{trans.__('Memory')}</span>
        <span>{trans.__('Used by')}</span>
      </div>
      <ul
        className="jp-GpuDask-gpus"
        aria-label={trans._n('GPU', 'GPUs', gpus.length)}
      >
        {gpus.map(gpu => (
          <GpuRow key={gpu.uuid} gpu={gpu} isOpen={areOpen} />
        ))}
      </ul>
    </>
  );
}
