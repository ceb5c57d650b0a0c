import React from 'react';

import { holderName } from '../cluster/summary';
import { Card } from '../components/card';
import { useGpuDask } from '../components/context';
import { Meter } from '../components/meter';
import { Sparkline } from '../components/sparkline';
import { formatUsage, percentage } from '../format';
import { IGpu } from '../model/api';
import { IGpuHistory } from '../model/model';
import { GpuUsers } from './gpuUsers';

/** A GPU: its metrics, clusters and processes. */
export function GpuCard({ gpu }: { gpu: IGpu }): JSX.Element {
  const { model, trans } = useGpuDask();
  const { showTemperature } = model.settings.value;
  const title = trans.__('GPU %1', gpu.index);
  const holders = gpu.holders.map(each => holderName(each, model.clusters));
  return (
    <Card version={holders.join()}>
      <div className="jp-GpuDask-cardHeader">
        <h3 title={`${gpu.name}, ${gpu.uuid}`}>
          <span
            className="jp-GpuDask-index"
            role="img"
            aria-label={title}
            title={title}
          >
            {gpu.index}
          </span>
          <span className="jp-GpuDask-name">{gpu.name}</span>
        </h3>
        {showTemperature && <Details gpu={gpu} />}
      </div>
      <Metrics gpu={gpu} />
      <GpuUsers gpu={gpu} />
    </Card>
  );
}

function Metrics({ gpu }: { gpu: IGpu }): JSX.Element {
  const history = useGpuDask().model.gpuHistory(gpu.uuid);
  return (
    <div className="jp-GpuDask-metrics">
      <BusyMetric gpu={gpu} history={history} />
      <MemoryMetric gpu={gpu} history={history} />
    </div>
  );
}

/** The temperature and the power. */
function Details({ gpu }: { gpu: IGpu }): JSX.Element {
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
  history: IGpuHistory;
}

function BusyMetric({ gpu, history }: IMetricProps): JSX.Element {
  const { trans } = useGpuDask();
  const isKnown = gpu.utilization !== null;
  const text = isKnown
    ? trans.__('%1 %', gpu.utilization?.toFixed(0))
    : trans.__('not available');
  return (
    <Metric
      name={trans.__('Busy')}
      label={trans.__('GPU %1 busy', gpu.index)}
      text={text}
      percent={gpu.utilization}
      kind="busy"
    >
      <Sparkline
        times={history.times}
        metrics={history.utilization}
        top={100}
        kind="busy"
      />
    </Metric>
  );
}

function MemoryMetric({ gpu, history }: IMetricProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const { memory_used: used, memory_total: total } = gpu;
  const isKnown = used !== null && total !== null;
  return (
    <Metric
      name={trans.__('Memory')}
      label={trans.__('GPU %1 memory', gpu.index)}
      text={
        isKnown
          ? formatUsage(used, total, trans, units)
          : trans.__('not available')
      }
      percent={isKnown ? percentage(used, total) : null}
      kind="memory"
    >
      <Sparkline
        times={history.times}
        metrics={history.memory}
        top={total ?? 0}
        kind="memory"
      />
    </Metric>
  );
}

interface IMetricFrameProps {
  name: string;
  label: string;
  text: string;
  percent: number | null;
  kind: 'busy' | 'memory';
  children: JSX.Element;
}

function Metric({
  name,
  label,
  text,
  percent,
  kind,
  children
}: IMetricFrameProps): JSX.Element {
  const { showSparklines } = useGpuDask().model.settings.value;
  return (
    <div className="jp-GpuDask-metric">
      <div className="jp-GpuDask-metricHeader" aria-hidden={percent !== null}>
        <span>{name}</span>
        <span className="jp-GpuDask-value">{text}</span>
      </div>
      {showSparklines && children}
      {percent !== null && (
        <Meter label={label} percent={percent} text={text} kind={kind} />
      )}
    </div>
  );
}
