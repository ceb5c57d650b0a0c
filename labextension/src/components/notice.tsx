import React from 'react';

interface INoticeProps {
  /** What is so, as one sentence. */
  title: string;
  /** What to do about it. */
  hint?: string;
  /** Lines to type; never translated. */
  code?: string;
  /** A button that does it. */
  children?: React.ReactNode;
}

/** A blank or broken state: what is so, and the way out. */
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
