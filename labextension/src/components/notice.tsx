import { refreshIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useState } from 'react';

import { CommandIDs } from '../commandIDs';
import { formatDuration } from '../format';
import { ENABLE_COMMAND } from '../snippets';
import { IGpuDask } from '../tokens';
import { CommandButton } from './commandButton';
import { useGpuDask } from './liveWidget';

interface INoticeProps {
  /** The state or problem, as a sentence. */
  title: string;
  /** How to fix it. */
  hint?: string;
  /** Code to run; never translated. */
  code?: string;
  /** Buttons. */
  children?: React.ReactNode;
}

/** A notice for an empty state or a problem, with what to do. */
export function Notice({
  title,
  hint,
  code,
  children
}: INoticeProps): JSX.Element {
  return (
    <div className="jp-GpuDask-notice">
      <p className="jp-GpuDask-noticeTitle">{title}</p>
      {hint && <p>{hint}</p>}
      {code && (
        <pre>
          <code>{code}</code>
        </pre>
      )}
      {children && <div className="jp-GpuDask-actions">{children}</div>}
    </div>
  );
}

/** Code of a notebook cell within a sentence. */
const CODE =
  /(%pip install (?:"[^"]+"|[\w-]+)|%%?gpudask(?: [a-z]+)?(?: --[a-z-]+)*)/;

/** A message in which code is shown as such. */
export function CodeText({ text }: { text: string }): JSX.Element {
  return (
    <>
      {text
        .split(CODE)
        .map((piece, index) =>
          index % 2 ? <code key={index}>{piece}</code> : piece
        )}
    </>
  );
}

/** Why the connection to the server is lost or refused; empty while it is not. */
export function ConnectionNotice(): JSX.Element {
  const gpuDask = useGpuDask();
  const notice = noticeOf(gpuDask);
  return (
    <div aria-live="polite">
      {notice && (
        <Notice {...notice}>
          {notice.children}
          <RetryButton />
        </Notice>
      )}
    </div>
  );
}

/** A button that connects to the server again. */
export function RetryButton(): JSX.Element {
  const { trans } = useGpuDask();
  return (
    <CommandButton
      command={CommandIDs.reconnect}
      label={trans.__('Retry now')}
      icon={refreshIcon}
    />
  );
}

function noticeOf({ model, trans }: IGpuDask): INoticeProps | null {
  const { status } = model;
  switch (status.kind) {
    case 'lost':
      return {
        title: trans.__('The connection to the server is lost.'),
        children: <Countdown until={status.retryAt} />
      };
    case 'silent':
      return {
        title: trans.__('The server does not respond.'),
        children: <Age since={status.since} />
      };
    case 'no-server':
      return {
        title: trans.__('This server does not run the GPU Dask extension.'),
        hint: trans.__(
          'Install jupyter_gpudask in the environment of the server and restart the server. If it is installed, enable it:'
        ),
        code: ENABLE_COMMAND
      };
    case 'refused':
      return {
        title: trans.__(
          'You do not have permission to see the clusters of this server.'
        ),
        hint: trans.__(
          'Log in again, or ask the administrator for access to gpudask.'
        )
      };
    default:
      return null;
  }
}

/** A countdown to the next attempt. */
function Countdown({ until }: { until: number }): JSX.Element {
  const { trans } = useGpuDask();
  const seconds = Math.max(1, Math.ceil((until - useNow()) / 1000));
  return <Clock text={trans.__('Retrying in %1 s', seconds)} />;
}

/** How old what is shown is. */
function Age({ since }: { since: number }): JSX.Element {
  const { trans } = useGpuDask();
  const seconds = Math.round((useNow() - since) / 1000);
  return (
    <Clock text={trans.__('No data for %1', formatDuration(seconds, trans))} />
  );
}

/** A text with a time that passes, hidden from screen readers. */
function Clock({ text }: { text: string }): JSX.Element {
  return (
    <span className="jp-GpuDask-secondary" aria-hidden="true">
      {text}
    </span>
  );
}

function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return now;
}
