import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { useCallback, useMemo, useState } from 'react';

import { Card } from '../components/card';
import { useGpuDask } from '../components/context';
import { Meter } from '../components/meter';
import { Sparkline } from '../components/sparkline';
import { formatBytes, formatUsage, percentage } from '../format';
import { IGpu } from '../model/api';
import { GpuUsers, userSummary } from './gpuUsers';

interface IGpuRowProps {
  gpu: IGpu;
  /** Whether the details are shown at first. */
  isOpen: boolean;
}

/** A GPU in one line; a click shows sparklines, temperature, power and processes. */
export function GpuRow({ gpu, isOpen }: IGpuRowProps): JSX.Element {
  const gpuDask = useGpuDask();
  const { showTemperature } = gpuDask.model.settings.value;
  const [isExpanded, setIsExpanded] = useState(isOpen);
  const summary = userSummary(gpu, gpuDask);
  const toggle = useCallback(() => setIsExpanded(was => !was), []);
  return (
    <Card
      version={`${summary.text} ${isExpanded}`}
      className="jp-GpuDask-gpu"
      data-expanded={isExpanded}
    >
      <Toggle
        index={gpu.index}
        title={`${gpu.name}, ${gpu.uuid}`}
        user={summary.text}
        isExpanded={isExpanded}
        onClick={toggle}
      />
      <BusyMetric gpu={gpu} isExpanded={isExpanded} />
      <MemoryMetric gpu={gpu} isExpanded={isExpanded} />
      <div className="jp-GpuDask-gpuUse">
        <span
          className="jp-GpuDask-gpuUser"
          data-kind={summary.kind}
          title={summary.text}
        >
          {summary.text}
        </span>
        {isExpanded && showTemperature && <Sensors gpu={gpu} />}
      </div>
      {isExpanded && <GpuUsers gpu={gpu} />}
    </Card>
  );
}

interface IToggleProps {
  index: number;
  title: string;
  user: string;
  isExpanded: boolean;
  onClick: () => void;
}

/** The button that shows the details; not rendered again when only metrics change, as icons take long. */
const Toggle = React.memo(function Toggle({
  index,
  title,
  user,
  isExpanded,
  onClick
}: IToggleProps): JSX.Element {
  const { trans } = useGpuDask();
  const Caret = isExpanded ? caretDownIcon : caretRightIcon;
  return (
    <button
      type="button"
      className="jp-GpuDask-toggle"
      aria-expanded={isExpanded}
      aria-label={trans.__('GPU %1: %2', index, user)}
      title={title}
      onClick={onClick}
    >
      <Caret.react tag="span" aria-hidden="true" />
      {index}
    </button>
  );
});

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

interface IGpuMetricProps {
  gpu: IGpu;
  isExpanded: boolean;
}

function BusyMetric({ gpu, isExpanded }: IGpuMetricProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const text =
    gpu.utilization === null
      ? null
      : trans.__('%1 %', gpu.utilization.toFixed(0));
  const name = useMemo(() => trans.__('GPU %1 busy', gpu.index), [gpu.index]);
  return (
    <Metric
      name={name}
      text={text}
      meterText={text ?? ''}
      percent={gpu.utilization}
      kind="busy"
    >
      {isExpanded && model.settings.value.showSparklines && (
        <Sparkline
          {...model.gpuHistory(gpu.uuid, 'utilization')}
          top={100}
          kind="busy"
        />
      )}
    </Metric>
  );
}

function MemoryMetric({ gpu, isExpanded }: IGpuMetricProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const { memory_used: used, memory_total: total } = gpu;
  const isKnown = used !== null && total !== null;
  const name = useMemo(() => trans.__('GPU %1 memory', gpu.index), [gpu.index]);
  return (
    <Metric
      name={name}
      text={isKnown ? formatBytes(used, units) : null}
      meterText={isKnown ? formatUsage(used, total, trans, units) : ''}
      percent={isKnown ? percentage(used, total) : null}
      kind="memory"
    >
      {isExpanded && model.settings.value.showSparklines && (
        <Sparkline
          {...model.gpuHistory(gpu.uuid, 'memory_used')}
          top={total ?? 0}
          kind="memory"
        />
      )}
    </Metric>
  );
}

interface IMetricProps {
  name: string;
  /** The value beside the meter; null if it is not available. */
  text: string | null;
  /** The value of the meter, with the total. */
  meterText: string;
  percent: number | null;
  kind: 'busy' | 'memory';
  children: React.ReactNode;
}

function Metric(props: IMetricProps): JSX.Element {
  const { name, text, meterText, percent, kind, children } = props;
  const { trans } = useGpuDask();
  if (percent === null) {
    return (
      <span className="jp-GpuDask-metric jp-GpuDask-secondary">
        <span className="jp-GpuDask-hidden">{name} </span>
        {trans.__('unknown')}
      </span>
    );
  }
  return (
    <div className="jp-GpuDask-metric" title={meterText}>
      <span className="jp-GpuDask-value" aria-hidden="true">
        {text}
      </span>
      {children}
      <Meter label={name} percent={percent} text={meterText} kind={kind} />
    </div>
  );
}
