import React, { useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';

import { ISample } from '../model/api';
import { ConnectionNotice } from '../views/connectionNotice';
import { useGpuDask } from '../views/context';
import { Notice } from '../views/notice';
import { csvOf, pngOf, save } from './exports';
import { groupsOf, IGroup, withGaps } from './figures';
import { GroupView } from './groupView';
import { HistoryToolbar } from './historyToolbar';
import { styleOf, stylesOf } from './lines';
import { IRange } from './plot';

/** How much the server keeps, in seconds. */
export const LONGEST_PAST = 900;

/** Busy, memory and work of every GPU and worker over the last minutes. */
export function HistoryView(): JSX.Element {
  const { model, trans } = useGpuDask();
  const [frozen, setFrozen] = useState<ISample[] | null>(null);
  const [span, setSpan] = useState(LONGEST_PAST);
  const [zoom, setZoom] = useState<IRange | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const plots = useRef(new Map<string, uPlot>());

  const kept = frozen ?? model.samples;
  const samples = useMemo(() => withGaps(kept), [kept]);
  const times = useMemo(() => samples.map(({ time }) => time), [samples]);
  const groups = useMemo(() => groupsOf(model, samples, trans), [samples]);
  const styles = stylesOf(groups.flatMap(group => group.subjects));

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
  const toggle = (key: string): void => {
    const others = new Set(hidden);
    setHidden(others.delete(key) ? others : others.add(key));
  };
  const saveCsv = (): void => {
    const text = csvOf(shown(groups, hidden), times, range);
    save(new Blob([text], { type: 'text/csv' }), 'gpu-history.csv');
  };
  const savePng = async (): Promise<void> => {
    const picture = {
      plots: [...plots.current].map(([title, plot]) => ({
        title,
        canvas: plot.ctx.canvas
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
        isPaused={frozen !== null}
        isZoomed={zoom !== null}
        time={cursor === null ? null : times[cursor]}
        onSpan={seconds => {
          setSpan(seconds);
          setZoom(null);
        }}
        onPause={() => setFrozen(frozen ? null : model.samples)}
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
            plots={plots.current}
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
    <p className="jp-GpuDask-wait">{trans.__('Reading the figures…')}</p>
  );
}

/** What is not hidden. */
function shown(groups: IGroup[], hidden: ReadonlySet<string>): IGroup[] {
  return groups.map(group => {
    const isShown = (_: unknown, number: number): boolean =>
      !hidden.has(group.subjects[number].key);
    return {
      ...group,
      subjects: group.subjects.filter(isShown),
      figures: group.figures.map(figure => ({
        ...figure,
        series: figure.series.filter(isShown)
      }))
    };
  });
}
