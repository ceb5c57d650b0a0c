import { LabIcon } from '@jupyterlab/ui-components';

import card from '../style/icons/gpu-card.svg';
import clock from '../style/icons/history.svg';
import tiles from '../style/icons/plots.svg';
import bars from '../style/icons/scale.svg';

const icon = (name: string, svgstr: string): LabIcon =>
  new LabIcon({ name: `jupyter-gpudask:${name}`, svgstr });

/** The icon of the extension. */
export const gpuDaskIcon = icon('gpu-card', card);
/** The icon in the launcher, where all have colors. */
export const launcherIcon = icon(
  'launcher',
  card.replace('jp-icon3', 'jp-icon-brand1')
);
/** The icon of the history; that of JupyterLab is missing in 4.0. */
export const historyIcon = icon('history', clock);
/** The icon of the command that scales a cluster. */
export const scaleIcon = icon('scale', bars);
/** The icon of the command that opens the plots of a cluster. */
export const plotsIcon = icon('plots', tiles);
