import { addIcon, runIcon, settingsIcon } from '@jupyterlab/ui-components';
import React, { useMemo } from 'react';

import { CommandIDs } from '../commandIDs';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { Notice } from '../components/notice';
import { summarize } from '../format';
import { ICluster } from '../model/api';
import { ClusterCard } from './clusterCard';

/** What starts a cluster in a notebook; code, so never translated. */
const START_LINES = '%load_ext jupyter_gpudask\n%gpudask start';

/** The clusters, and how to get one. */
export function ClusterSection(): JSX.Element {
  const { model, current, trans } = useGpuDask();
  const { kind } = model.status;
  if (kind === 'no-server' || kind === 'refused') {
    return (
      <Notice
        title={trans.__('There are no clusters of the server to show.')}
        hint={trans.__(
          'A notebook starts its own without it; run in one of its cells:'
        )}
        code={START_LINES}
      />
    );
  }
  if (!model.gpus) {
    return (
      <p className="jp-GpuDask-wait">{trans.__('Looking for clusters…')}</p>
    );
  }
  const clusters = inOrder([...model.clusters.values()], current.kernelId);
  const hasOwn = model.clusters.has(current.kernelId ?? '');
  return (
    <div data-stale={kind === 'lost'}>
      {!hasOwn && <NoCluster isOnly={clusters.length === 0} />}
      <ul className="jp-GpuDask-cards" aria-label={trans.__('Clusters')}>
        {clusters.map(cluster => (
          <ClusterCard
            key={cluster.kernel_id}
            cluster={cluster}
            isCurrent={cluster.kernel_id === current.kernelId}
          />
        ))}
      </ul>
      <Announcer clusters={clusters} />
    </div>
  );
}

/** The current notebook's first, the others by name. */
export function inOrder(
  clusters: ICluster[],
  currentId: string | null
): ICluster[] {
  const rank = (cluster: ICluster): number =>
    cluster.kernel_id === currentId ? 0 : 1;
  return [...clusters].sort(
    (one, other) =>
      rank(one) - rank(other) || one.name.localeCompare(other.name)
  );
}

/** The current notebook has no cluster, or there is no notebook. */
function NoCluster({ isOnly }: { isOnly: boolean }): JSX.Element | null {
  const { current, trans } = useGpuDask();
  if (!current.session) {
    return isOnly ? (
      <Notice
        title={trans.__('No notebook is open.')}
        hint={trans.__('Each notebook can have its own cluster; open one.')}
      >
        <CommandButton
          command="notebook:create-new"
          label={trans.__('New notebook')}
          icon={addIcon}
        />
      </Notice>
    ) : null;
  }
  if (!current.kernelId) {
    return (
      <Notice
        title={trans.__('%1 has no kernel.', current.name)}
        hint={trans.__('Choose one in its toolbar; a cluster belongs to it.')}
      />
    );
  }
  return (
    <Notice
      title={trans.__('%1 has no cluster yet.', current.name)}
      hint={trans.__(
        'Start one here, or with the first %1 cell of the notebook.',
        '%%gpudask'
      )}
    >
      <CommandButton
        command={CommandIDs.start}
        label={trans.__('Start')}
        about={current.name}
        icon={runIcon}
      />
      <CommandButton
        command={CommandIDs.startWithOptions}
        label={trans.__('Options…')}
        about={current.name}
        icon={settingsIcon}
      />
    </Notice>
  );
}

/** Says changes of state to those who do not see them, and no metrics. */
function Announcer({ clusters }: { clusters: ICluster[] }): JSX.Element {
  const { model, trans } = useGpuDask();
  const gpus = model.gpus?.gpus ?? [];
  const sentences = clusters.map(cluster => {
    const { state, engine } = summarize(cluster, gpus, trans);
    return [`${cluster.name}: ${state}`, engine].filter(Boolean).join(', ');
  });
  return useMemo(
    () => (
      <div className="jp-GpuDask-hidden" role="status" aria-live="polite">
        {sentences.map(sentence => (
          <p key={sentence}>{sentence}</p>
        ))}
      </div>
    ),
    [sentences.join()]
  );
}
