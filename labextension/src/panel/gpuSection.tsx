import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { holderName, shortName } from '../cluster/names';
import { modelOf } from '../cluster/snapshot';
import { Card, Meter, Sparkline, Unchanged } from '../components/card';
import { ClusterBadge, ShortName } from '../components/clusterName';
import { useGpuDask } from '../components/liveWidget';
import { Notice } from '../components/notice';
import { relatedTo } from '../components/related';
import { endReason } from '../errors';
import { formatBytes, formatUsage, percentage, sum } from '../format';
import { IGpu, IGpuList, IGpuUser, mayHaveGpus } from '../model/api';
import { LIST_GPUS_CODE } from '../snippets';
import { IGpuDask } from '../tokens';

/** With at most this many GPUs, the details of each are shown at first. */
const MAX_OPEN = 2;

/** The section of the GPUs. */
export function GpuSection(): JSX.Element {
  const { model, trans } = useGpuDask();
  const { status, gpus } = model;
  if (status.kind === 'no-server' || status.kind === 'refused') {
    return (
      <Notice
        title={trans.__('GPU metrics of the server are not available.')}
        hint={trans.__(
          'To list the GPUs without the server, run in a notebook cell:'
        )}
        code={LIST_GPUS_CODE}
      />
    );
  }
  if (!gpus) {
    return <p className="jp-GpuDask-loading">{trans.__('Loading GPUs…')}</p>;
  }
  const count = gpus.gpus.length;
  const clusters = Array.from(model.clusters.values());
  const areElsewhere = clusters.some(({ engine }) => mayHaveGpus(engine));
  const why = endReason(gpus, trans);
  return (
    <div data-stale={model.isStale}>
      {why.message ? (
        <Notice title={why.message} hint={why.fix} />
      ) : (
        count === 0 && (
          <Notice
            title={trans.__('This machine has no GPU.')}
            hint={
              areElsewhere
                ? ''
                : trans.__('Clusters run the same code on the CPU.')
            }
          />
        )
      )}
      {groupByModel(gpus.gpus).map(group => (
        <GpuGroup
          key={group[0].uuid}
          gpus={group}
          areOpen={count <= MAX_OPEN}
        />
      ))}
      <WaitingLine waiting={gpus.waiting} />
    </div>
  );
}

/** The starts that stand in line for GPUs, unless the settings hide those of others. */
function WaitingLine({
  waiting
}: Pick<IGpuList, 'waiting'>): JSX.Element | null {
  const { model, trans } = useGpuDask();
  const { otherClusters } = model.settings.value;
  const places = waiting.flatMap((start, index) => {
    const { user: name, own, kernel_id, count } = start;
    const who = shortName(holderName({ name, kernel_id }, model.clusters));
    return own || otherClusters !== 'hide'
      ? trans._n('%2. %3: %1 GPU', '%2. %3: %1 GPUs', count, index + 1, who)
      : [];
  });
  const title = trans.__('In line for GPUs');
  return places.length > 0 ? (
    <div className="jp-GpuDask-line">
      <h3>{title}</h3>
      <ul className="jp-GpuDask-notes" aria-label={title}>
        {places.map(place => (
          <li key={place}>{place}</li>
        ))}
      </ul>
    </div>
  ) : null;
}

/** Divide GPUs into runs with the same name and the same memory. */
export function groupByModel(gpus: IGpu[]): IGpu[][] {
  const groups: IGpu[][] = [];
  for (const gpu of gpus) {
    const group = groups.at(-1);
    const isSame =
      group?.[0].name === gpu.name &&
      group[0].memory_total === gpu.memory_total;
    if (group && isSame) {
      group.push(gpu);
    } else {
      groups.push([gpu]);
    }
  }
  return groups;
}

interface IGpuGroupProps {
  gpus: IGpu[];
  areOpen: boolean;
}

/** The GPUs of one model, below its name and memory. */
function GpuGroup({ gpus, areOpen }: IGpuGroupProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const [{ name, memory_total: total }] = gpus;
  const label = modelOf(gpus[0]);
  return (
    <>
      <div className="jp-GpuDask-gpuGroup">
        <h3 title={name}>
          {gpus.length > 1 ? trans.__('%1 × %2', gpus.length, label) : label}
        </h3>
        {total !== null && (
          <span className="jp-GpuDask-secondary">
            {formatBytes(total, model.settings.value.units)}
          </span>
        )}
      </div>
      <div className="jp-GpuDask-gpuHead" aria-hidden="true">
        <span>{trans.__('Busy')}</span>
        <span>{trans.__('Memory')}</span>
        <span>{trans.__('Used by')}</span>
      </div>
      <ul
        className="jp-GpuDask-gpus"
        aria-label={trans._n('GPU', 'GPUs', gpus.length)}
      >
        {gpus.map(gpu => (
          <GpuRow key={gpu.uuid} gpu={gpu} isOpen={areOpen} />
        ))}
      </ul>
    </>
  );
}

interface IGpuRowProps {
  gpu: IGpu;
  /** Whether the details are shown at first. */
  isOpen: boolean;
}

/** A GPU in one line; a click shows sparklines, temperature, power and processes. */
export function GpuRow({ gpu, isOpen }: IGpuRowProps): JSX.Element {
  const gpuDask = useGpuDask();
  const { model, trans } = gpuDask;
  const [isExpanded, setIsExpanded] = useState(isOpen);
  const { kind, text } = userSummary(gpu, gpuDask);
  const Caret = isExpanded ? caretDownIcon : caretRightIcon;
  const ids = gpu.holders.map(({ kernel_id: id }) => id ?? '');
  const numbers = ids.map(id => model.numberOf(id));
  // Several names have no room.
  const areLetters = ids.length > 1 && !numbers.includes(null);
  return (
    <Card
      version={`${text} ${isExpanded}`}
      className="jp-GpuDask-gpu"
      data-expanded={isExpanded}
      {...relatedTo(...ids)}
    >
      <Unchanged by={[gpu.index, text, isExpanded]}>
        <button
          type="button"
          className="jp-GpuDask-toggle"
          aria-expanded={isExpanded}
          aria-label={trans.__('GPU %1: %2', gpu.index, text)}
          title={`${gpu.name}, ${gpu.uuid}`}
          onClick={() => setIsExpanded(!isExpanded)}
        >
          <Caret.react tag="span" aria-hidden="true" />
          {gpu.index}
        </button>
      </Unchanged>
      <Metric gpu={gpu} kind="busy" isExpanded={isExpanded} />
      <Metric gpu={gpu} kind="memory" isExpanded={isExpanded} />
      <div className="jp-GpuDask-gpuUse">
        <Unchanged
          by={[kind, text, numbers, ids.map(id => model.clusters.has(id))]}
        >
          <span className="jp-GpuDask-gpuUser" data-kind={kind} title={text}>
            {ids.map((id, index) => (
              <ClusterBadge key={index} kernelId={id} />
            ))}
            {!areLetters && (
              <HolderLink kernelId={ids[0] ?? ''}>
                {text.split(', ').map((name, index) => (
                  <ShortName
                    key={index}
                    name={index > 0 ? `, ${name}` : name}
                  />
                ))}
              </HolderLink>
            )}
          </span>
        </Unchanged>
        {isExpanded && model.settings.value.showTemperature && (
          <Sensors gpu={gpu} />
        )}
      </div>
      {isExpanded && <GpuUsers gpu={gpu} />}
    </Card>
  );
}

/** A name that leads to the card of the cluster that has reserved a GPU, if the panel shows it. */
function HolderLink({
  kernelId,
  children
}: React.PropsWithChildren<{ kernelId: string }>): JSX.Element {
  const { model, trans } = useGpuDask();
  const name = model.clusters.get(kernelId)?.name;
  return name ? (
    <button
      type="button"
      className="jp-GpuDask-link jp-GpuDask-holderLink"
      // The keyboard comes to the card soon, and would stop at each GPU twice.
      tabIndex={-1}
      aria-label={trans.__('Show %1', name)}
      onClick={() => {
        const card = document.querySelector<HTMLElement>(
          `[data-kernel="${kernelId}"]`
        );
        card?.scrollIntoView({ block: 'nearest' });
        card?.focus();
      }}
    >
      {children}
    </button>
  ) : (
    <>{children}</>
  );
}

/** The temperature and the power. */
function Sensors({ gpu }: { gpu: IGpu }): JSX.Element {
  const { trans } = useGpuDask();
  return (
    <span className="jp-GpuDask-details">
      {gpu.temperature !== null && (
        <span title={trans.__('Temperature')}>
          {trans.__('%1 °C', gpu.temperature.toFixed(0))}
        </span>
      )}
      {gpu.power !== null && (
        <span title={trans.__('Power')}>
          {trans.__('%1 W', gpu.power.toFixed(0))}
        </span>
      )}
    </span>
  );
}

interface IMetricProps {
  gpu: IGpu;
  kind: 'busy' | 'memory';
  isExpanded: boolean;
}

/** The utilization or the memory of a GPU: its value, a sparkline and a meter. */
function Metric({ gpu, kind, isExpanded }: IMetricProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units, showSparklines } = model.settings.value;
  const { index, uuid, utilization, memory_used: used } = gpu;
  const isBusy = kind === 'busy';
  const total = isBusy ? 100 : gpu.memory_total;
  const value = isBusy ? utilization : used;
  const name = isBusy
    ? trans.__('GPU %1 busy', index)
    : trans.__('GPU %1 memory', index);
  if (value === null || total === null) {
    return (
      <span className="jp-GpuDask-metric jp-GpuDask-secondary">
        <span className="jp-GpuDask-hidden">{name} </span>
        {trans.__('unknown')}
      </span>
    );
  }
  const [text, meterText] = isBusy
    ? Array<string>(2).fill(trans.__('%1 %', value.toFixed(0)))
    : [formatBytes(value, units), formatUsage(value, total, trans, units)];
  return (
    <div className="jp-GpuDask-metric" title={isBusy ? name : meterText}>
      <span className="jp-GpuDask-value" aria-hidden="true">
        {text}
      </span>
      {isExpanded && showSparklines && (
        <Sparkline
          {...model.gpuHistory(uuid, isBusy ? 'utilization' : 'memory_used')}
          top={total}
          kind={kind}
        />
      )}
      <Meter
        label={name}
        percent={percentage(value, total)}
        text={meterText}
        kind={kind}
      />
    </div>
  );
}

/** A GPU that is busy in so many percent of the time is used, also if the driver lists no process, as in a container. */
const BUSY = 5;

/** Who uses a GPU, in a few words. */
export interface IUserSummary {
  kind: 'cluster' | 'process' | 'free';
  text: string;
}

/** The clusters that have reserved a GPU, or else the processes on it. */
export function userSummary(
  gpu: IGpu,
  { model, trans }: IGpuDask
): IUserSummary {
  if (gpu.holders.length > 0) {
    const names = gpu.holders.map(each => holderName(each, model.clusters));
    return { kind: 'cluster', text: names.join(', ') };
  }
  const isUsed = gpu.users.length > 0 || gpu.hidden_use;
  if (!isUsed && (gpu.utilization ?? 0) < BUSY) {
    return { kind: 'free', text: trans.__('Free') };
  }
  const [first, ...others] = otherProcesses(gpu, model.settings.value);
  if (!first) {
    return {
      kind: 'process',
      text: isUsed ? trans.__('In use') : trans.__('Unlisted')
    };
  }
  const name = first.notebook ?? first.name ?? trans.__('pid %1', first.pid);
  const text =
    others.length > 0 ? trans.__('%1, %2 more', name, others.length) : name;
  return { kind: 'process', text };
}

/** The processes on a GPU that do not belong to a cluster that has reserved it. */
function otherProcesses(
  gpu: IGpu,
  { showProcesses }: { showProcesses: boolean }
): IGpuUser[] {
  return showProcesses
    ? gpu.users.filter(user => !belongsToHolder(user, gpu))
    : [];
}

/** Whether a process belongs to a cluster that has reserved the GPU. */
function belongsToHolder({ kernel_id: id }: IGpuUser, gpu: IGpu): boolean {
  return id !== null && gpu.holders.some(holder => holder.kernel_id === id);
}

/** The clusters that have reserved the GPU and other processes on it, with their memory; nothing if the summary has it all. */
export function GpuUsers({ gpu }: { gpu: IGpu }): JSX.Element | null {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const others = otherProcesses(gpu, model.settings.value);
  const hasOwn = gpu.users.some(user => belongsToHolder(user, gpu));
  if (others.length === 0 && !gpu.hidden_use && !hasOwn) {
    return null;
  }
  const bytes = (memory: number | null): string =>
    memory ? formatBytes(memory, units) : '';
  const clusters = gpu.holders.map(holder => {
    const { kernel_id: id } = holder;
    const own = gpu.users.filter(user => id && user.kernel_id === id);
    return {
      kind: 'cluster',
      title: holder.name,
      name: holderName(holder, model.clusters),
      details: [
        holder.share ? trans.__('shared') : '',
        bytes(sum(own.map(user => user.memory)))
      ]
    };
  });
  const processes = others.map(user => ({
    kind: 'process',
    title: user.notebook
      ? trans.__('Its cluster has not reserved this GPU')
      : trans.__('Not a cluster of this server'),
    name: [
      user.notebook ? trans.__('Kernel of %1', user.notebook) : user.name,
      trans.__('pid %1', user.pid)
    ]
      .filter(Boolean)
      .join(', '),
    details: [user.user, bytes(user.memory)]
  }));
  const listed = sum(gpu.users.map(user => user.memory));
  const unlisted = {
    kind: 'process',
    title: trans.__(
      'The driver does not list the processes that use this memory, such as those of other containers'
    ),
    name: trans.__('Unlisted processes'),
    details: [bytes((gpu.memory_used ?? 0) - listed)]
  };
  const rows = [
    // One without details is in the summary already.
    ...clusters.filter(
      ({ details }) => clusters.length > 1 || details.some(Boolean)
    ),
    ...processes,
    ...(gpu.hidden_use ? [unlisted] : [])
  ];
  return (
    <ul
      className="jp-GpuDask-holders"
      aria-label={trans.__('On GPU %1', gpu.index)}
    >
      {rows.map(({ kind, title, name, details }, index) => (
        <li key={`${name} ${index}`} data-kind={kind} title={title}>
          <span className="jp-GpuDask-holder">
            {kind === 'cluster' ? <ShortName name={name} /> : name}
          </span>
          <span className="jp-GpuDask-secondary">
            {details.filter(Boolean).join(', ')}
          </span>
        </li>
      ))}
    </ul>
  );
}
