/**
 * The button in the notebook toolbar, and the item of the status bar.
 */
import { ISessionContext } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { createElement } from 'react';

import { currentGpus } from '../cluster/snapshot';
import { lazyView, LiveWidget } from '../components/liveWidget';
import { IGpuDask } from '../tokens';
import { Acceleration } from './acceleration';

const load = (): Promise<typeof import('./buttonViews')> =>
  import('./buttonViews');

/** Create the button of a notebook. */
export function createClusterButton(
  gpuDask: IGpuDask,
  session: ISessionContext,
  acceleration: Acceleration
): LiveWidget {
  const view = lazyView(async () => {
    const { ClusterButton } = await load();
    return () => createElement(ClusterButton, { session, acceleration });
  });
  const button = new LiveWidget(gpuDask, view);
  button.addClass('jp-GpuDask-toolbarButton');
  session.kernelChanged.connect(button.update, button);
  acceleration.changed.connect(button.update, button);
  return button;
}

/** The item of the status bar, shown while the current notebook's cluster has GPUs. */
export function createStatusItem(gpuDask: IGpuDask): IStatusBar.IItem {
  const { model } = gpuDask;
  const view = lazyView(async () => (await load()).StatusItem);
  return {
    item: new LiveWidget(gpuDask, view),
    align: 'left',
    rank: 50,
    isActive: () =>
      model.settings.value.showStatusBar && currentGpus(gpuDask).length > 0,
    activeStateChanged: model.changed
  };
}
