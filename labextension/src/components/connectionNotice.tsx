import { refreshIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';

import { CommandIDs } from '../commandIDs';
import { ENABLE_COMMAND } from '../snippets';
import { CommandButton } from './commandButton';
import { useGpuDask } from './context';
import { Notice } from './notice';

/** Why the connection to the server is lost or refused; empty while it is not. */
export function ConnectionNotice(): JSX.Element {
  return (
    <div aria-live="polite">
      <Status />
    </div>
  );
}

function Status(): JSX.Element | null {
  const { model, trans } = useGpuDask();
  const { status } = model;
  const retryButton = (
    <CommandButton
      command={CommandIDs.reconnect}
      label={trans.__('Retry now')}
      icon={refreshIcon}
    />
  );
  switch (status.kind) {
    case 'lost':
      return (
        <Notice title={trans.__('The connection to the server is lost.')}>
          <Countdown until={status.retryAt} />
          {retryButton}
        </Notice>
      );
    case 'no-server':
      return (
        <Notice
          title={trans.__('This server does not run the GPU Dask extension.')}
          hint={trans.__(
            'Install jupyter_gpudask in the environment of the server and restart the server. If it is installed, enable it:'
          )}
          code={ENABLE_COMMAND}
        >
          {retryButton}
        </Notice>
      );
    case 'refused':
      return (
        <Notice
          title={trans.__(
            'You do not have permission to see the clusters of this server.'
          )}
          hint={trans.__(
            'Log in again, or ask the administrator for access to gpudask.'
          )}
        >
          {retryButton}
        </Notice>
      );
    default:
      return null;
  }
}

/** A countdown to the next attempt, hidden from screen readers. */
function Countdown({ until }: { until: number }): JSX.Element {
  const { trans } = useGpuDask();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [until]);
  const seconds = Math.max(1, Math.ceil((until - now) / 1000));
  return (
    <span className="jp-GpuDask-secondary" aria-hidden="true">
      {trans.__('Retrying in %1 s', seconds)}
    </span>
  );
}
