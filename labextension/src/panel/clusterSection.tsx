import { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, runIcon, settingsIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { currentName } from '../cluster/names';
import { shownClusters } from '../cluster/offered';
import { sharedActions, snapshot } from '../cluster/snapshot';
import { CommandIDs } from '../commandIDs';
import { Unchanged } from '../components/card';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/liveWidget';
import { Notice } from '../components/notice';
import { ICluster } from '../model/api';
import { isKernelStarting } from '../notebook/currentKernel';
import { START_CODE } from '../snippets';
import { ClusterCard } from './clusterCard';

/** The section of the clusters. */
export function ClusterSection(): JSX.Element {
  const { model, current, trans } = useGpuDask();
  const { kind } = model.status;
  if (kind === 'no-server' || kind === 'refused') {
    return (
      <Notice
        title={trans.__('Clusters of the server are not available.')}
        hint={trans.__(
          'To start a cluster without the server, run in a notebook cell:'
        )}
        code={START_CODE}
      />
    );
  }
  if (!model.gpus) {
    return (
      <p className="jp-GpuDask-loading">{trans.__('Loading clusters…')}</p>
    );
  }
  const shown = shownClusters(
    model.clusters.values(),
    current.kernelId,
    model.settings.value
  );
  const clusters = shown.sort((one, other) =>
    one.name.localeCompare(other.name)
  );
  const hasOwn = model.clusters.has(current.kernelId ?? '');
  return (
    <div data-stale={model.isStale}>
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

/** The notice that no notebook is open, or that it has no kernel or no cluster. */
function NoCluster({ isOnly }: { isOnly: boolean }): JSX.Element | null {
  const gpuDask = useGpuDask();
  const { model, current, trans } = gpuDask;
  const name = currentName(gpuDask);
  if (!current.session) {
    return isOnly ? (
      <Notice
        title={trans.__('No notebook is open.')}
        hint={trans.__('Open a notebook to start a cluster for it.')}
      >
        <CommandButton
          command="notebook:create-new"
          label={trans.__('New notebook')}
          icon={addIcon}
        />
      </Notice>
    ) : null;
  }
  if (isKernelStarting(current.session)) {
    return <Notice title={trans.__('The kernel of %1 is starting…', name)} />;
  }
  if (!current.kernelId) {
    return (
      <Notice
        title={trans.__('%1 has no kernel.', name)}
        hint={trans.__(
          'Select a kernel in the notebook toolbar to start a cluster.'
        )}
      />
    );
  }
  return (
    <Notice
      title={trans.__('%1 has no cluster.', name)}
      hint={
        model.settings.value.allowStart
          ? trans.__(
              'Run every cell that uses Dask on GPUs, or only %1 cells.',
              '%%gpudask'
            )
          : trans.__('Run a %1 cell in the notebook.', '%%gpudask')
      }
    >
      {startButtons(trans).map(button => (
        <CommandButton key={button.command} {...button} target={name} />
      ))}
      {sharedActions(gpuDask).map(button => (
        <CommandButton key={button.label} {...button} target={name} />
      ))}
    </Notice>
  );
}

/** What starts the first cluster of a notebook. */
const startButtons = (
  trans: TranslationBundle
): React.ComponentProps<typeof CommandButton>[] => [
  { command: CommandIDs.runOnGpus, label: trans.__('Run Dask on GPUs') },
  { command: CommandIDs.start, label: trans.__('Start'), icon: runIcon },
  {
    command: CommandIDs.startWithOptions,
    label: trans.__('Options…'),
    icon: settingsIcon
  },
  { command: CommandIDs.tryExample, label: trans.__('Try an example') }
];

/** A live region that announces changes of state, but no metrics, to screen readers. */
function Announcer({ clusters }: { clusters: ICluster[] }): JSX.Element {
  const gpuDask = useGpuDask();
  const sentences = clusters.map(cluster => {
    const { state, engine } = snapshot(cluster, gpuDask);
    return [`${cluster.name}: ${state}`, engine].filter(Boolean).join(', ');
  });
  return (
    <Unchanged by={sentences}>
      <div className="jp-GpuDask-hidden" role="status" aria-live="polite">
        {sentences.map(sentence => (
          <p key={sentence}>{sentence}</p>
        ))}
      </div>
    </Unchanged>
  );
}
