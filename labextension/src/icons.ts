import { LabIcon } from '@jupyterlab/ui-components';

import chip from '../style/icons/gpu-chip.svg';
import bars from '../style/icons/scale.svg';

/** The icon of the extension. */
export const gpuDaskIcon = new LabIcon({
  name: 'jupyter-gpudask:gpu-chip',
  svgstr: chip
});

/** The icon of the command that scales a cluster. */
export const scaleIcon = new LabIcon({
  name: 'jupyter-gpudask:scale',
  svgstr: bars
});
