import { LabIcon } from '@jupyterlab/ui-components';

import card from '../style/icons/gpu-card.svg';
import clock from '../style/icons/history.svg';
import tiles from '../style/icons/plots.svg';
import bars from '../style/icons/scale.svg';

/** The icon of the extension. */
export const gpuDaskIcon = new LabIcon({
  name: 'jupyter-gpudask:gpu-card',
  svgstr: card
});

/** The icon of the history. */
export const historyIcon = new LabIcon({
  name: 'jupyter-gpudask:history',
  svgstr: clock
});

/** The icon of the command that scales a cluster. */
export const scaleIcon = new LabIcon({
  name: 'jupyter-gpudask:scale',
  svgstr: bars
});

/** The icon of the command that opens the plots of a cluster. */
export const plotsIcon = new LabIcon({
  name: 'jupyter-gpudask:plots',
  svgstr: tiles
});
