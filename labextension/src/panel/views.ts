/**
 * What is in the panel, loaded when it is first visible.
 */
import '../../style/views.css';
import '../../style/buttons.css';
import '../../style/gpus.css';
import '../../style/clusters.css';

export { ConnectionNotice } from '../components/notice';
export { ClusterSection } from './clusterSection';
export { GpuSection } from './gpuSection';
