import React, { useCallback, useMemo, useRef, useState } from 'react';

import { ConnectionNotice } from '../components/connectionNotice';
import { useGpuDask } from '../components/context';
import { Notice } from '../components/notice';
import { IChart } from './chart';
import { csvOf, pngOf, save } from './exports';
import { GroupView } from './groupView';
import { HistoryToolbar } from './historyToolbar';
import { styleOf, stylesOf } from './lineStyles';
import { groupsOf, IGroup, ISubjects, namesKey, subjectsOf } from './metrics';
import { IRange } from './plot';
import { Past } from './store';

/** How much the server keeps, in seconds. */
export const LONGEST_PAST = 900;

/** Of a group with more lines, so many are drawn until others are chosen: as many as there are colours. */
const MOST_LINES = 8;

/** What shows a past. */
export function createHistoryView(past: Past): React.FunctionComponent {
  return function HistoryOf(): JSX.Element {
    return <HistoryView past={past} />;
  };
}

/** Busy, memory and work of every GPU and worker over the last minutes. */
function HistoryView({ past }: { past: Past }): JSX.Element {
  const { model, trans } = useGpuDask();
  const [isPaused, setPaused] = useState(past.isPaused);
  const [span, setSpan] = useState(LONGEST_PAST);
  const [zoom, setZoom] = useState<IRange | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const charts = useRef(new Map<string, IChart>());

  const { times } = past;
  const subjects = useMemo(
    () => subjectsOf(model, past, trans),
    [past.generation, namesKey(model)]
  );
  const groups = groupsOf(model, past, subjects, trans);
  const hidden = useMemo(() => hiddenIn(subjects, chosen), [subjects, chosen]);
  const styles = useMemo(
    () => stylesOf([...subjects.gpus, ...subjects.workers]),
    [subjects]
  );
  const toggle = useCallback((keys: string[], isDrawn: boolean): void => {
    const chosenNow = keys.map((key): [string, boolean] => [key, isDrawn]);
    setChosen(before => new Map([...before, ...chosenNow]));
  }, []);

  const newest = times.at(-1);
  if (newest === undefined || groups.length === 0) {
    return (
      <>
        <ConnectionNotice />
        <NothingYet isKnown={newest !== undefined} />
      </>
    );
  }
  const range = zoom ?? { min: newest - span, max: newest };
  const pause = (): void => {
    if (isPaused) {
      past.resume();
    } else {
      past.pause();
    }
    setPaused(past.isPaused);
  };
  const saveCsv = (): void => {
    const text = csvOf(shown(groups, hidden), times, range);
    save(new Blob([text], { type: 'text/csv' }), 'gpu-history.csv');
  };
  const savePng = async (): Promise<void> => {
    charts.current.forEach(chart => chart.draw());
    const picture = {
      plots: [...charts.current].map(([title, { canvas }]) => ({
        title,
        canvas
      })),
      lines: shown(groups, hidden)
        .flatMap(group => group.subjects)
        .map(({ key, name, details }) => ({
          name: `${name}, ${details}`,
          style: styles.get(key) ?? styleOf(0)
        }))
    };
    const image = await pngOf(picture);
    if (image) {
      save(image, 'gpu-history.png');
    }
  };
  return (
    <>
      <ConnectionNotice />
      <HistoryToolbar
        span={span}
        isPaused={isPaused}
        isZoomed={zoom !== null}
        time={cursor === null ? null : times[cursor]}
        onSpan={seconds => {
          setSpan(seconds);
          setZoom(null);
        }}
        onPause={pause}
        onResetZoom={() => setZoom(null)}
        onCsv={saveCsv}
        onPng={savePng}
      />
      <div data-stale={model.status.kind === 'lost'}>
        {groups.map(group => (
          <GroupView
            key={group.id}
            group={group}
            styles={styles}
            hidden={hidden}
            times={times}
            range={range}
            index={cursor ?? times.length - 1}
            charts={charts.current}
            onToggle={toggle}
            onZoom={setZoom}
            onCursor={setCursor}
          />
        ))}
      </div>
    </>
  );
}

function NothingYet({ isKnown }: { isKnown: boolean }): JSX.Element {
  const { trans } = useGpuDask();
  return isKnown ? (
    <Notice
      title={trans.__('There is no GPU here, and no cluster runs.')}
      hint={trans.__('What the workers of a cluster do is shown here.')}
    />
  ) : (
    <p className="jp-GpuDask-wait">{trans.__('Reading the metrics…')}</p>
  );
}

/** The keys of what is not drawn. */
function hiddenIn(
  { gpus, workers }: ISubjects,
  chosen: ReadonlyMap<string, boolean>
): ReadonlySet<string> {
  const keys = [gpus, workers].flatMap(subjects =>
    subjects
      .filter(({ key }, number) => !(chosen.get(key) ?? number < MOST_LINES))
      .map(({ key }) => key)
  );
  return new Set(keys);
}

/** What is not hidden. */
function shown(groups: IGroup[], hidden: ReadonlySet<string>): IGroup[] {
  return groups.map(group => {
    const isShown = (_: unknown, number: number): boolean =>
      !hidden.has(group.subjects[number].key);
    return {
      ...group,
      subjects: group.subjects.filter(isShown),
      metrics: group.metrics.map(metric => ({
        ...metric,
        series: metric.series.filter(isShown)
      }))
    };
  });
}
