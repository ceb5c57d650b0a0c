import { nullTranslator } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import schema from '../../schema/settings.json';
import { isOffered } from '../cluster/offered';
import { CommandIDs } from '../commandIDs';
import { formatBytes } from '../format';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { ISettings, Settings } from '../model/settings';
import { CurrentKernel } from '../notebook/currentKernel';
import { createPanel } from '../panel/panel';
import { startApp, TestApp } from './app';
import {
  cluster,
  FakeSocket,
  GIB,
  gpu,
  rendered,
  settingsOf
} from './fakeServer';

/** A registry's settings, in the hands of the test. */
class Source {
  composite: Partial<ISettings> = {};
  changed = new Signal<this, void>(this);

  change(composite: Partial<ISettings>): void {
    this.composite = composite;
    this.changed.emit();
  }

  async set(key: string, value: unknown): Promise<void> {
    this.change({ ...this.composite, [key]: value });
  }
}

describe('the settings', () => {
  it('have the defaults of the schema', () => {
    const defaults = Object.entries(schema.properties).map(
      ([name, property]) => [name, property.default]
    );
    expect(new Settings().value).toEqual(Object.fromEntries(defaults));
  });

  it('follow the registry, and are ready when they are loaded', async () => {
    const settings = new Settings();
    const source = new Source();
    source.composite = { units: 'GB' };
    settings.follow(source);
    await settings.ready;
    expect(settings.value).toMatchObject({ units: 'GB', refresh: 1 });
    source.change({ refresh: 5 });
    expect(settings.value).toMatchObject({ units: 'GiB', refresh: 5 });
  });

  it.each([
    [0, '0 B', '0 B'],
    [999, '999 B', '999 B'],
    [1000, '1000 B', '1.0 kB'],
    [1024, '1.0 KiB', '1.0 kB'],
    [62 * GIB, '62 GiB', '67 GB'],
    [3000 * 1024 * GIB, '3000 TiB', '3299 TB']
  ])('say %d bytes in their units', (bytes, binary, decimal) => {
    expect(formatBytes(bytes)).toBe(binary);
    expect(formatBytes(bytes, 'GB')).toBe(decimal);
  });
});

describe('changed settings', () => {
  let app: TestApp;
  let model: GpuDaskModel;
  let current: CurrentKernel;
  let source: Source;
  let panel: SidePanel;

  beforeEach(() => {
    FakeSocket.all = [];
    const rest = new RestClient(settingsOf(() => new Response('{}')));
    app = startApp(rest.settings);
    model = new GpuDaskModel(new Connection(rest));
    source = new Source();
    model.settings.follow(source);
    current = new CurrentKernel(app.shell);
    panel = createPanel(
      {
        model,
        current,
        commands: new CommandRegistry(),
        trans: nullTranslator.load('jupyter_gpudask'),
        rest: model.connection.rest,
        language: 'en'
      },
      nullTranslator
    );
    Widget.attach(panel, document.body);
  });

  afterEach(() => {
    panel.dispose();
    model.dispose();
    app.shell.dispose();
  });

  const count = (selector: string): number =>
    panel.node.querySelectorAll(selector).length;
  const titles = (): (string | null)[] =>
    Array.from(
      panel.node.querySelectorAll('.lm-AccordionPanel-titleLabel'),
      node => node.textContent
    );

  it('hide parts of the panel at once', async () => {
    FakeSocket.last.send({
      gpus: { gpus: [gpu()], waiting: [], reason: '', fix: '', error: null },
      clusters: [cluster()]
    });
    await rendered();
    expect(count('.jp-GpuDask-sparkline')).toBe(2);
    expect(count('.jp-GpuDask-workers')).toBe(1);
    expect(panel.node.textContent).toContain('46 °C');
    source.change({
      showSparklines: false,
      showTemperature: false,
      showWorkers: false,
      units: 'GB'
    });
    await rendered();
    expect(count('.jp-GpuDask-sparkline')).toBe(0);
    expect(count('.jp-GpuDask-workers')).toBe(0);
    expect(panel.node.textContent).not.toContain('46 °C');
    expect(panel.node.textContent).toContain('44 GB');
  });

  it('hide the section of GPUs, and show it again in its place', async () => {
    source.change({ showGpus: false });
    expect(titles()).toEqual(['Clusters']);
    source.change({});
    expect(titles()).toEqual(['GPUs', 'Clusters']);
  });

  it('hide the section of clusters, or the clusters of other notebooks', async () => {
    FakeSocket.last.send({ clusters: [cluster()] });
    await rendered();
    expect(count('.jp-GpuDask-card[aria-label^="Cluster of"]')).toBe(1);
    source.change({ otherClusters: 'hide' });
    await rendered();
    expect(count('.jp-GpuDask-card[aria-label^="Cluster of"]')).toBe(0);
    source.change({ showClusters: false });
    expect(titles()).toEqual(['GPUs']);
    source.change({});
    expect(titles()).toEqual(['GPUs', 'Clusters']);
  });

  it('offer fewer commands', () => {
    const offered = (changes: Partial<ISettings>, isOther: boolean): string =>
      [
        CommandIDs.start,
        CommandIDs.restart,
        CommandIDs.scale,
        CommandIDs.stop,
        CommandIDs.showLogs
      ]
        .filter(id =>
          isOffered(id, isOther, { ...new Settings().value, ...changes })
        )
        .map(id => id.replace('gpudask:', ''))
        .join(' ');
    const all = 'start restart scale stop show-logs';
    expect(offered({}, true)).toBe(all);
    expect(offered({ allowStart: false }, false)).toBe('scale stop show-logs');
    expect(offered({ allowStop: false }, false)).toBe('start show-logs');
    expect(offered({ otherClusters: 'show' }, false)).toBe(all);
    expect(offered({ otherClusters: 'show' }, true)).toBe('show-logs');
  });

  it('update metrics less often, but changes of state at once', () => {
    source.change({ refresh: 3 });
    const times: number[] = [];
    FakeSocket.last.send({ time: 0 });
    let now = 0;
    model.changed.connect(() => times.push(now));
    for (now = 1; now <= 7; now += 1) {
      FakeSocket.last.send({
        type: 'changes',
        time: now + 0.01,
        clusters: now === 4 ? [cluster()] : []
      });
    }
    expect(times).toEqual([3, 4, 7]);
  });
});
