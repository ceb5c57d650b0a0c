import { LabIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import React, { useCallback, useSyncExternalStore } from 'react';

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
  const state = useCommandState(command, args);
  if (state === 'hidden') {
    return null;
  }
  return (
    <button
      type="button"
      className={`jp-GpuDask-button jp-mod-${look}`}
      aria-label={about ? `${label}: ${about}` : label}
      title={label}
      disabled={state === 'disabled'}
      onClick={() => void commands.execute(command, args)}
    >
      {icon && <icon.react tag="span" aria-hidden="true" />}
      {look === 'text' && <span>{label}</span>}
    </button>
  );
}

type CommandState = 'enabled' | 'disabled' | 'hidden';

/** Whether a command can be run now; what holds a button is not always drawn anew when that changes. */
function useCommandState(
  command: string,
  args: ReadonlyPartialJSONObject
): CommandState {
  const { commands } = useGpuDask();
  const subscribe = useCallback(
    (onChange: () => void) => {
      commands.commandChanged.connect(onChange);
      return () => void commands.commandChanged.disconnect(onChange);
    },
    [commands]
  );
  return useSyncExternalStore(subscribe, () => {
    if (!commands.hasCommand(command) || !commands.isVisible(command, args)) {
      return 'hidden';
    }
    return commands.isEnabled(command, args) ? 'enabled' : 'disabled';
  });
}
