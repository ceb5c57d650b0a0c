import { LabIcon } from '@jupyterlab/ui-components';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import React, { useCallback, useSyncExternalStore } from 'react';

import { useGpuDask } from './liveWidget';
import { disabledProps, useKeptFocus } from './focus';

interface ICommandButtonProps {
  command: string;
  args?: ReadonlyPartialJSONObject;
  label: string;
  /** The cluster or notebook, for the accessible name. */
  target?: string;
  icon?: LabIcon;
  /** Whether the label is shown beside the icon. */
  variant?: 'text' | 'icon';
  /** Why the command is not possible; the button is then disabled, and describes it. */
  limit?: string;
}

/** A button that runs a command. */
export function CommandButton(props: ICommandButtonProps): JSX.Element | null {
  const state = useCommandState(props.command, props.args ?? {});
  return state === 'hidden' ? null : (
    <ShownButton {...props} isEnabled={state === 'enabled'} />
  );
}

function ShownButton({
  command,
  args = {},
  label,
  target = '',
  icon,
  variant = 'text',
  limit,
  isEnabled
}: ICommandButtonProps & { isEnabled: boolean }): JSX.Element {
  const { commands } = useGpuDask();
  const ref = useKeptFocus();
  const isDisabled = !isEnabled && !limit;
  return (
    <button
      ref={ref}
      type="button"
      className={`jp-GpuDask-button jp-mod-${variant}`}
      aria-label={target ? `${label}: ${target}` : label}
      title={limit || label}
      {...(limit ? { 'aria-disabled': true } : disabledProps(ref, isDisabled))}
      onClick={() =>
        limit || isDisabled || void commands.execute(command, args)
      }
    >
      {icon && <icon.react tag="span" aria-hidden="true" />}
      {variant === 'text' && <span>{label}</span>}
    </button>
  );
}

type CommandState = 'enabled' | 'disabled' | 'hidden';

/** Subscribe to the state of a command, which may change without a change of the model. */
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
