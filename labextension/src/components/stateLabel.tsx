import React from 'react';

import '../../style/states.css';

import { ISnapshot } from '../cluster/snapshot';

/** The shapes differ, so that the states can be distinguished without color. */
const SHAPES: { [kind in ISnapshot['kind']]: JSX.Element } = {
  off: <circle cx="6" cy="6" r="4" fill="none" strokeWidth="1.5" />,
  starting: <path d="M6 2a4 4 0 1 1-4 4" fill="none" strokeWidth="2" />,
  ready: <circle cx="6" cy="6" r="4.5" stroke="none" />,
  'on-cpu': <path d="M6 1.5a4.5 4.5 0 0 0 0 9z M6 2a4 4 0 0 1 0 8" />,
  closing: <path d="M6 2a4 4 0 1 1-4 4" fill="none" strokeWidth="2" />,
  failed: <path d="M2.5 2.5l7 7m0-7l-7 7" fill="none" strokeWidth="2" />
};

/** The icon of a state. */
export function StateIcon({ kind }: { kind: ISnapshot['kind'] }): JSX.Element {
  return (
    <svg
      className="jp-GpuDask-stateIcon"
      data-kind={kind}
      viewBox="0 0 12 12"
      aria-hidden="true"
      focusable="false"
    >
      {SHAPES[kind]}
    </svg>
  );
}

/** The icon and the name of a state. */
export function StateLabel({ now }: { now: ISnapshot }): JSX.Element {
  return (
    <span className="jp-GpuDask-state" data-kind={now.kind}>
      <StateIcon kind={now.kind} />
      {now.state}
    </span>
  );
}
