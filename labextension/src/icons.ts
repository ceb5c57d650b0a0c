import { LabIcon } from '@jupyterlab/ui-components';

import chip from '../style/icons/gpu-chip.svg';
import bars from '../style/icons/scale.svg';

/** A GPU chip; its colour follows the theme. */
export const gpuDaskIcon = new LabIcon({
  name: 'jupyter-gpudask:gpu-chip',
  svgstr: chip
});

/** More or fewer of the same. */
export const scaleIcon = new LabIcon({
  name: 'jupyter-gpudask:scale',
  svgstr: bars
});
