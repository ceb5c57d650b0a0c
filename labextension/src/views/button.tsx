import { LabIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import React from 'react';

import { useGpuDask } from './context';

interface ICommandButtonProps {
  command: string;
  args?: ReadonlyPartialJSONObject;
  label: string;
  /** What it is about, for those who hear it out of its place. */
  about?: string;
  icon?: LabIcon;
  /** Text on it, or the icon alone. */
  look?: 'text' | 'icon';
}

/** A button that runs a command. */
export function CommandButton({
  command,
  args = {},
  label,
  about = '',
  icon,
  look = 'text'
}: ICommandButtonProps): JSX.Element | null {
  const { commands } = useGpuDask();
  if (!commands.hasCommand(command) || !commands.isVisible(command, args)) {
    return null;
  }
  return (
    <button
      type="button"
      className={`jp-GpuDask-button jp-mod-${look}`}
      aria-label={about ? `${label}: ${about}` : label}
      title={label}
      disabled={!commands.isEnabled(command, args)}
      onClick={() => void commands.execute(command, args)}
    >
      {icon && <icon.react tag="span" aria-hidden="true" />}
      {look === 'text' && <span>{label}</span>}
    </button>
  );
}
