import { LabIcon } from '@jupyterlab/ui-components';

import chip from '../style/icons/gpu-chip.svg';

/** A GPU chip; its colour follows the theme. */
export const gpuDaskIcon = new LabIcon({
  name: 'jupyter-gpudask:gpu-chip',
  svgstr: chip
});
