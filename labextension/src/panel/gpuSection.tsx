import React from 'react';

import { useGpuDask } from '../components/context';
import { Notice } from '../components/notice';
import { LIST_GPUS_CODE } from '../snippets';
import { GpuCard } from './gpuCard';

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
  return (
    <div data-stale={status.kind === 'lost'}>
      {gpus.reason ? (
        <Notice title={gpus.reason} hint={gpus.fix} />
      ) : (
        gpus.gpus.length === 0 && (
          <Notice
            title={trans.__('This machine has no GPU.')}
            hint={trans.__('Clusters run the same code on the CPU stand-in.')}
          />
        )
      )}
      <ul className="jp-GpuDask-cards" aria-label={trans.__('GPUs')}>
        {gpus.gpus.map(gpu => (
          <GpuCard key={gpu.uuid} gpu={gpu} />
        ))}
      </ul>
    </div>
  );
}
