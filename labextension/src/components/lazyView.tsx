import React, { Suspense } from 'react';

import { useGpuDask } from './context';

/**
 * A view whose code and styles are loaded when it is first rendered.
 *
 * @param load - loads the view
 */
export function lazyView(
  load: () => Promise<React.FunctionComponent>
): React.FunctionComponent {
  const View = React.lazy(async () => {
    try {
      return { default: await load() };
    } catch (error) {
      console.error('A view of GPU Dask could not be loaded.', error);
      return { default: LoadFailure };
    }
  });
  return () => (
    <Suspense fallback={null}>
      <View />
    </Suspense>
  );
}

/** The files are missing: the server is gone, or has another version of the extension by now. */
function LoadFailure(): JSX.Element {
  const { trans } = useGpuDask();
  return <p>{trans.__('This part could not be loaded. Reload the page.')}</p>;
}
