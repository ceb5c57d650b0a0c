import React from 'react';

interface ITabToolbarProps {
  label: string;
  children: React.ReactNode;
}

/** The toolbar of a tab, which stays at its top. */
export function TabToolbar({ label, children }: ITabToolbarProps): JSX.Element {
  return (
    <div className="jp-GpuDask-tabToolbar" role="toolbar" aria-label={label}>
      {children}
    </div>
  );
}
