/**
 * Emphasizes the GPUs of a cluster while the pointer or the focus is in its card, and the card while it is on a GPU.
 */
import React from 'react';

/** The attributes of an element that belongs to the clusters of these kernels. */
export function relatedTo(
  ...kernelIds: string[]
): React.HTMLAttributes<HTMLElement> & { 'data-kernels': string } {
  return {
    'data-kernels': kernelIds.join(' '),
    onPointerEnter: emphasize,
    onPointerLeave: end,
    onFocus: emphasize,
    onBlur: end
  };
}

function emphasize({ currentTarget: own }: Event): void {
  const ids = kernelsOf(own);
  others(own).forEach(each =>
    each.toggleAttribute(
      'data-related',
      each !== own && kernelsOf(each).some(id => ids.includes(id))
    )
  );
}

function end({ currentTarget }: Event): void {
  others(currentTarget).forEach(each => each.removeAttribute('data-related'));
}

type Event = React.SyntheticEvent<HTMLElement>;

/** All elements of the panel that belong to clusters. */
function others(own: HTMLElement): HTMLElement[] {
  const all = own
    .closest('.jp-GpuDask')
    ?.querySelectorAll<HTMLElement>('[data-kernels]');
  return [...(all ?? [])];
}

function kernelsOf({ dataset }: HTMLElement): string[] {
  return dataset.kernels?.split(' ').filter(Boolean) ?? [];
}
