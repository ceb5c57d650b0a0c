import React from 'react';

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
