/**
 * The charts and tables of the history, with their toolbar.
 */
import React, { useCallback, useMemo, useRef, useState } from 'react';

import { CellList, showCell } from '../components/cellList';
import { COLORS } from '../components/clusterName';
import { ConnectionNotice } from '../components/notice';
import { useGpuDask } from '../components/liveWidget';
import { download, TabToolbar } from '../components/liveTab';
import { disabledProps } from '../components/focus';
import { isShown } from '../cluster/offered';
import { formatDuration } from '../format';
import { timesIn } from '../times';
import { IChart } from './chart';
import { toCsv, toPng } from './export';
import { GroupView } from './groupView';
import {
  chartId,
  fullName,
  IGroup,
  ISources,
  metricGroups,
  sourceNamesKey,
  sourcesOf,
  withoutCharts
} from './metrics';
import { cellsIn, usePast } from './past';
import {
  lineStyle,
  lineStyles,
  IRange,
  RANGE_KEYS,
  rangeAfterKey
} from './plot';
import { HistoryStore } from './store';

/** How many seconds of metrics the history shows; the default of the server's `history_seconds`. */
export const HISTORY_SECONDS = 900;

/** The history is said to begin later than its range if it lacks so many seconds. */
const MARGIN = 30;

/** The number of the newest cells in the list; the charts have all. */
const MOST_CELLS = 50;

/** The color of the cells of a cluster; gray for one that has ended, or that is the only one. */
function colorOf(number: number | null): string {
  return number === null ? '#808080' : COLORS[number % COLORS.length];
}

/** The number of lines that are shown at first in each group: one for each color. */
const DEFAULT_LINES = 8;

/** Create the view of a store. */
export function createHistoryView(
  store: HistoryStore
): React.FunctionComponent {
  return function StoreView(): JSX.Element {
    return <HistoryView store={store} />;
  };
}

/** A name with the time, so that the next file does not replace this one: "gpu-history-2026-11-27T13-05-10.csv". */
function fileName(suffix: string): string {
  const time = new Date().toISOString().slice(0, 19).replace(/:/g, '-');
  return `gpu-history-${time}.${suffix}`;
}

/** The charts and tables of the metrics of all GPUs, of all workers and of the machine. */
function HistoryView({ store: recent }: { store: HistoryStore }): JSX.Element {
  const gpuDask = useGpuDask();
  const { model, current, trans, language } = gpuDask;
  const [span, setSpan] = useState(HISTORY_SECONDS);
  const past = usePast(gpuDask, Math.max(span, HISTORY_SECONDS));
  const store = (span > HISTORY_SECONDS && past?.store) || recent;
  const [zoom, setZoom] = useState<IRange | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(
    new Map()
  );
  const charts = useRef(new Map<string, IChart>());

  const { times } = store;
  const sources = useMemo(
    () => sourcesOf(model, store, trans, current.kernelId),
    [store, store.generation, sourceNamesKey(model, current.kernelId)]
  );
  const allGroups = metricGroups(model, store, sources, trans);
  const groups = withoutCharts(allGroups, model.settings.value.hiddenCharts);
  const hidden = useMemo(() => hiddenIn(sources, toggled), [sources, toggled]);
  const shown = withoutHidden(groups, hidden);
  const styles = useMemo(
    () => lineStyles([...sources.gpus, ...sources.workers, ...sources.machine]),
    [sources]
  );
  const toggle = useCallback((keys: string[], isShown: boolean): void => {
    const changes = keys.map((key): [string, boolean] => [key, isShown]);
    setToggled(before => new Map([...before, ...changes]));
  }, []);

  const newest = recent.times.at(-1);
  if (newest === undefined || allGroups.length === 0) {
    return (
      <>
        <ConnectionNotice />
        <p className="jp-GpuDask-loading">{trans.__('Loading metrics…')}</p>
      </>
    );
  }
  // Not wider than there is something to see.
  const first = Math.max(newest - span, Math.min(times[0], newest - 60));
  const range = zoom ?? { min: first, max: newest };
  const cells = cellsIn(past, model).filter(
    ({ kernel_id: kernelId, began, seconds }) =>
      began < range.max &&
      began + (seconds ?? newest - began) > range.min &&
      isShown(kernelId, current.kernelId, model.settings.value)
  );
  const bands = cells.map(cell => ({
    from: cell.began,
    to: cell.seconds === null ? newest : cell.began + cell.seconds,
    color: colorOf(model.numberOf(cell.kernel_id)),
    title: trans.__('Cell [%1] of %2', cell.number, cell.notebook),
    onClick: () => showCell(cell, gpuDask)
  }));
  const zoomByKey = (event: React.KeyboardEvent): void => {
    if (event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    const all = { min: newest - Math.max(span, HISTORY_SECONDS), max: newest };
    const next = rangeAfterKey(event.key, range, all, span);
    if (next !== undefined) {
      event.preventDefault();
      setZoom(next);
    }
  };
  const title = trans.__('GPU history: %1', timesIn(language).range(range));
  // The tables show the end of the range, unless the cursor is in a chart.
  const after = times.findIndex(time => time > range.max);
  const index = cursor ?? (after < 0 ? times.length : after) - 1;
  const saveCsv = (): void => {
    const text = toCsv(shown, times, range);
    download(new Blob([text], { type: 'text/csv' }), fileName('csv'));
  };
  const savePng = async (): Promise<void> => {
    charts.current.forEach(chart => chart.draw());
    const picture = {
      title,
      plots: [...charts.current].map(([title, { canvas }]) => ({
        title,
        canvas
      })),
      lines: shown
        .flatMap(group => group.sources)
        .map(source => ({
          name: fullName(source),
          style: styles.get(source.key) ?? lineStyle(0)
        }))
    };
    const image = await toPng(picture);
    if (image) {
      download(image, fileName('png'));
    }
  };
  return (
    <>
      <ConnectionNotice />
      <HistoryToolbar
        groups={allGroups}
        span={span}
        isZoomed={zoom !== null}
        time={times.at(index) ?? null}
        isNow={cursor === null && zoom === null}
        since={first > newest - span + MARGIN ? newest - first : null}
        onSpan={seconds => {
          setSpan(seconds);
          setZoom(null);
        }}
        onResetZoom={() => setZoom(null)}
        onCsv={saveCsv}
        onPng={savePng}
      />
      <h2>
        <span
          role="slider"
          tabIndex={0}
          aria-label={trans.__('Zoom')}
          aria-valuemin={newest - span}
          aria-valuemax={newest}
          aria-valuenow={range.max}
          aria-valuetext={title}
          aria-description={trans.__(
            'Plus and minus zoom all charts, the arrow keys move the range, and 0 or Escape resets the zoom.'
          )}
          aria-keyshortcuts={RANGE_KEYS}
          onKeyDown={zoomByKey}
        >
          {title}
        </span>
      </h2>
      <div className="jp-GpuDask-groups" data-stale={model.isStale}>
        {groups.length === 0 && (
          <p className="jp-GpuDask-secondary">
            {trans.__('All charts are hidden. Choose some with “Charts”.')}
          </p>
        )}
        {groups.map((group, number) => (
          <GroupView
            key={group.id}
            group={group}
            shown={shown[number]}
            styles={styles}
            hidden={hidden}
            times={times}
            bands={bands}
            range={range}
            index={index}
            charts={charts.current}
            onToggle={toggle}
            onZoom={setZoom}
            onCursor={setCursor}
          />
        ))}
        {cells.length > 0 && (
          <section className="jp-GpuDask-group" aria-label={trans.__('Cells')}>
            <h3>{trans.__('Cells')}</h3>
            <CellList
              cells={cells.slice(0, MOST_CELLS)}
              label={trans.__('Cells')}
              areMixed
            />
          </section>
        )}
      </div>
    </>
  );
}

/** The keys of the sources whose lines are hidden. */
function hiddenIn(
  { gpus, workers, machine }: ISources,
  toggled: ReadonlyMap<string, boolean>
): ReadonlySet<string> {
  const keys = [gpus, workers, machine].flatMap(sources =>
    sources
      .filter(
        ({ key }, number) => !(toggled.get(key) ?? number < DEFAULT_LINES)
      )
      .map(({ key }) => key)
  );
  return new Set(keys);
}

/** The groups without the hidden sources. */
function withoutHidden(
  groups: IGroup[],
  hidden: ReadonlySet<string>
): IGroup[] {
  return groups.map(group => {
    const isShown = (_: unknown, number: number): boolean =>
      !hidden.has(group.sources[number].key);
    return {
      ...group,
      sources: group.sources.filter(isShown),
      metrics: group.metrics.map(metric => ({
        ...metric,
        series: metric.series.filter(isShown)
      }))
    };
  });
}

interface IHistoryToolbarProps {
  /** All groups, also with hidden charts. */
  groups: IGroup[];
  /** The length of the shown time range, in seconds. */
  span: number;
  isZoomed: boolean;
  /** The time whose values the tables show, in seconds since the epoch; null if there are none. */
  time: number | null;
  /** Whether that is the newest time, and moves on. */
  isNow: boolean;
  /** Since how many seconds there are metrics, if that is less than the time range; else null. */
  since: number | null;
  onSpan: (span: number) => void;
  onResetZoom: () => void;
  onCsv: () => void;
  onPng: () => Promise<void>;
}

const MINUTES = [1440, 360, 60, 15, 5, 1];

/** The toolbar of the history. */
function HistoryToolbar(props: IHistoryToolbarProps): JSX.Element {
  const { trans, language } = useGpuDask();
  const button = 'jp-GpuDask-button jp-mod-text';
  const reset = useRef<HTMLButtonElement>(null);
  return (
    <TabToolbar label={trans.__('History')}>
      <select
        aria-label={trans.__('Time range')}
        value={props.span}
        onChange={event => props.onSpan(Number(event.target.value))}
      >
        {MINUTES.map(minutes => (
          <option key={minutes} value={minutes * 60}>
            {minutes > 15
              ? trans._n('Last hour', 'Last %1 hours', minutes / 60)
              : trans._n('Last minute', 'Last %1 minutes', minutes)}
          </option>
        ))}
      </select>
      <button
        ref={reset}
        type="button"
        className={button}
        title={trans.__('Drag in a chart to zoom, or press + in it')}
        {...disabledProps(reset, !props.isZoomed)}
        onClick={props.onResetZoom}
      >
        {trans.__('Reset zoom')}
      </button>
      <span className="jp-GpuDask-secondary">
        {props.isNow || props.time === null
          ? props.since
            ? trans.__('Now, %1 so far', formatDuration(props.since, trans))
            : trans.__('Now')
          : timesIn(language).time(props.time)}
      </span>
      <span className="jp-GpuDask-spacer" />
      <ChartChooser groups={props.groups} />
      <button type="button" className={button} onClick={props.onCsv}>
        {trans.__('Save CSV')}
      </button>
      <button
        type="button"
        className={button}
        onClick={() => void props.onPng()}
      >
        {trans.__('Save PNG')}
      </button>
    </TabToolbar>
  );
}

/** A button that opens a list of all charts, in which they are shown and hidden. */
function ChartChooser({
  groups
}: Pick<IHistoryToolbarProps, 'groups'>): JSX.Element {
  const { model, trans } = useGpuDask();
  const { settings } = model;
  const { hiddenCharts } = settings.value;
  const details = useRef<HTMLDetailsElement>(null);
  const toggle = (id: string): void => {
    const others = hiddenCharts.filter(each => each !== id);
    void settings.source?.set?.(
      'hiddenCharts',
      others.length < hiddenCharts.length ? others : [...others, id]
    );
  };
  const close = (): void => details.current?.removeAttribute('open');
  return (
    <details
      ref={details}
      className="jp-GpuDask-chooser"
      onBlur={({ currentTarget, relatedTarget }) => {
        // A click on a label leaves the checkbox without a focused element for a moment.
        if (relatedTarget && !currentTarget.contains(relatedTarget)) {
          close();
        }
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          close();
          details.current?.querySelector('summary')?.focus();
        }
      }}
    >
      <summary className="jp-GpuDask-button jp-mod-text">
        {trans.__('Charts')}
      </summary>
      <div className="jp-GpuDask-chooserList">
        {groups.map(group => (
          <fieldset key={group.id}>
            <legend>{group.title}</legend>
            {group.metrics.map(metric => {
              const id = chartId(group, metric);
              return (
                <label key={id}>
                  <input
                    type="checkbox"
                    checked={!hiddenCharts.includes(id)}
                    onChange={() => toggle(id)}
                  />
                  {metric.title}
                </label>
              );
            })}
          </fieldset>
        ))}
      </div>
    </details>
  );
}
