import React from 'react';

import { useGpuDask } from '../components/context';
import { Notice } from '../components/notice';
import { GpuCard } from './gpuCard';

/** What lists the GPUs in a notebook. */
const GPUS_LINES = '%load_ext jupyter_gpudask\n%gpudask gpus';

/** The GPUs of the machine. */
export function GpuSection(): JSX.Element {
  const { model, trans } = useGpuDask();
  const { status, gpus } = model;
  if (status.kind === 'no-server' || status.kind === 'refused') {
    return (
      <Notice
        title={trans.__('There are no metrics without the server.')}
        hint={trans.__(
          'A notebook can show the GPUs of its kernel; run in one of its cells:'
        )}
        code={GPUS_LINES}
      />
    );
  }
  if (!gpus) {
    return <p className="jp-GpuDask-wait">{trans.__('Reading the GPUs…')}</p>;
  }
  return (
    <div data-stale={status.kind === 'lost'}>
      {gpus.reason ? (
        <Notice title={gpus.reason} hint={gpus.fix} />
      ) : (
        gpus.gpus.length === 0 && (
          <Notice
            title={trans.__('This machine has no GPU.')}
            hint={trans.__(
              'Clusters run on the CPU stand-in here, with the same code.'
            )}
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
