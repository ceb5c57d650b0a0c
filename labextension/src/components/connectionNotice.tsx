import { refreshIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';

import { CommandIDs } from '../commandIDs';
import { CommandButton } from './commandButton';
import { useGpuDask } from './context';
import { Notice } from './notice';

const ENABLE = 'jupyter server extension enable jupyter_gpudask';

/** Nothing while all is well; else why there is nothing new, and the way out. */
export function ConnectionNotice(): JSX.Element {
  return (
    <div aria-live="polite">
      <Trouble />
    </div>
  );
}

function Trouble(): JSX.Element | null {
  const { model, trans } = useGpuDask();
  const { status } = model;
  const again = (
    <CommandButton
      command={CommandIDs.reconnect}
      label={trans.__('Try again now')}
      icon={refreshIcon}
    />
  );
  switch (status.kind) {
    case 'lost':
      return (
        <Notice title={trans.__('The connection to the server is lost.')}>
          <Countdown until={status.retryAt} />
          {again}
        </Notice>
      );
    case 'no-server':
      return (
        <Notice
          title={trans.__('This server does not run the GPU Dask extension.')}
          hint={trans.__(
            'Install jupyter_gpudask where the server is, and restart the server. If it is installed, enable it:'
          )}
          code={ENABLE}
        >
          {again}
        </Notice>
      );
    case 'refused':
      return (
        <Notice
          title={trans.__('The server does not let you see its clusters.')}
          hint={trans.__(
            'Log in again, or ask its administrator for the right to use gpudask.'
          )}
        >
          {again}
        </Notice>
      );
    default:
      return null;
  }
}

/** Counts down to the next try; too often to be read aloud. */
function Countdown({ until }: { until: number }): JSX.Element {
  const { trans } = useGpuDask();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [until]);
  const seconds = Math.max(1, Math.ceil((until - now) / 1000));
  return (
    <span className="jp-GpuDask-quiet" aria-hidden="true">
      {trans.__('Next try in %1 s', seconds)}
    </span>
  );
}
