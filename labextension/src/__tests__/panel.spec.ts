import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';

import { CommandIDs } from '../commandIDs';
import { PANEL_ID } from '../panel/panel';
import { cluster, FakeSocket, rendered } from './fakeServer';
import { gpuList, ShownPanel } from './shownPanel';

/** Marks every sentence, so that untranslated ones are found. */
const markingTranslator: ITranslator = {
  ...nullTranslator,
  load: (domain: string): TranslationBundle => {
    const bundle = Object.create(
      nullTranslator.load(domain)
    ) as TranslationBundle;
    bundle.__ = (sentence: string) => `«${sentence}»`;
    return bundle;
  }
};

let shown: ShownPanel;

beforeEach(() => (shown = new ShownPanel()));
afterEach(() => shown.dispose());

describe('the panel', () => {
  it('has an id, a caption and an icon for the sidebar', () => {
    shown.show();
    expect(shown.panel.id).toBe(PANEL_ID);
    expect(shown.panel.title.caption).toBe('GPU Dask');
    expect(shown.panel.title.icon).toMatchObject({
      name: 'jupyter-gpudask:gpu-card'
    });
  });

  it('shows the sections GPUs and Clusters in a labelled region', () => {
    shown.show();
    expect(shown.texts('.lm-AccordionPanel-titleLabel')).toEqual([
      'GPUs',
      'Clusters'
    ]);
    const region = shown.panel.node.querySelector(
      '[role="region"][aria-label="GPU Dask"]'
    );
    expect(region).toBe(shown.panel.content.node);
  });

  it('translates every sentence, but no code', async () => {
    shown.show(markingTranslator);
    shown.reply = () => new Response('', { status: 404 });
    FakeSocket.last.break();
    await rendered();
    const sentences = shown.texts('.lm-AccordionPanel-titleLabel, p');
    expect(sentences.length).toBeGreaterThan(6);
    sentences.forEach(sentence => expect(sentence).toMatch(/^«.+»$/));
    shown.texts('code').forEach(code => expect(code).not.toContain('«'));
  });
});

describe('the connection', () => {
  it('shows when it is lost and when it retries, with the last known state', async () => {
    shown.show();
    await shown.receive({ gpus: gpuList(), clusters: [cluster()] });
    shown.reply = () => {
      throw new TypeError('Failed to fetch');
    };
    FakeSocket.last.break();
    await rendered();
    const notice = shown.panel.header.node;
    expect(notice.textContent).toMatch(
      /^The connection to the server is lost\.Retrying in 1 sRetry now$/
    );
    expect(shown.texts('.jp-GpuDask-workers li')).toHaveLength(1);
    expect(
      shown.panel.node.querySelectorAll('[data-stale="true"]')
    ).toHaveLength(2);
  });

  it('shows how to enable a missing server extension', async () => {
    shown.show();
    shown.reply = () => new Response('', { status: 404 });
    FakeSocket.last.break();
    await rendered();
    expect(shown.texts('.jp-GpuDask-noticeTitle')[0]).toBe(
      'This server does not run the GPU Dask extension.'
    );
    expect(shown.texts('code')).toEqual([
      'jupyter server extension enable jupyter_gpudask',
      '%load_ext jupyter_gpudask\n%gpudask gpus',
      '%load_ext jupyter_gpudask\n%gpudask start'
    ]);
    shown.openNotebook('kernel-9');
    expect(shown.gpuDask.commands.isEnabled(CommandIDs.start)).toBe(false);
  });
});
