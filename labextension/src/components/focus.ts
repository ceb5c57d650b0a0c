import React, { useLayoutEffect, useRef } from 'react';

/**
 * Remember what has the focus, for when a menu or dialog closes.
 *
 * @returns gives the focus back, unless something else has it by then; if the element was removed, to what contained it
 */
export function rememberFocus(): () => void {
  const path: HTMLElement[] = [];
  let node = document.activeElement as HTMLElement | null;
  for (; node; node = node.parentElement) {
    path.push(node);
  }
  const giveBack = (tries: number): void => {
    const [first] = path;
    if (tries > 0 && first?.isConnected && first.matches(':disabled')) {
      // It was a button whose command is carried out still.
      setTimeout(() => giveBack(tries - 1), 50);
    } else if (document.activeElement === document.body) {
      path
        .find(
          (each, depth) =>
            each.isConnected &&
            (depth === 0 ||
              each.tabIndex >= 0 ||
              each.getAttribute('role') === 'region')
        )
        ?.focus();
    }
  };
  return () => giveBack(20);
}

/**
 * What disables a button. One that has the focus keeps it, so that the keyboard finds the reason, and what comes next.
 *
 * @param button - the button, whose `onClick` must do nothing while it is disabled
 */
export function disabledProps(
  button: React.RefObject<HTMLButtonElement>,
  isDisabled: boolean
): { disabled: boolean; 'aria-disabled'?: true } {
  const isFocused =
    button.current !== null && button.current === document.activeElement;
  return isDisabled && isFocused
    ? { disabled: false, 'aria-disabled': true }
    : { disabled: isDisabled };
}

/** A ref of a button; if it is removed while it has the focus, what contained it gets the focus. */
export function useKeptFocus(): React.RefObject<HTMLButtonElement> {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const node = button.current;
    return () => {
      if (node && node === document.activeElement) {
        requestAnimationFrame(rememberFocus());
      }
    };
  }, []);
  return button;
}
