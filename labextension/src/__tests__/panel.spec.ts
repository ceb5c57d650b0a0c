import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';
import { framePromise } from '@jupyterlab/testing';
import { SidePanel } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { createPanel, PANEL_ID } from '../panel';

/** Marks every sentence, so that one which skips the translator stands out. */
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

let panel: SidePanel;

async function show(translator: ITranslator): Promise<SidePanel> {
  panel = createPanel(translator);
  Widget.attach(panel, document.body);
  // React draws each section in a turn of its own, after as many frames as it needs.
  const isDrawn = (section: Widget): boolean =>
    section.node.querySelector('code') !== null;
  while (!panel.widgets.every(isDrawn)) {
    await framePromise();
  }
  return panel;
}

afterEach(() => panel.dispose());

describe('the panel', () => {
  it('has an id, a caption and an icon for the sidebar', async () => {
    await show(nullTranslator);
    expect(panel.id).toBe(PANEL_ID);
    expect(panel.title.caption).toBe('GPU Dask');
    expect(panel.title.icon).toMatchObject({
      name: 'jupyter-gpudask:gpu-chip'
    });
  });

  it('shows the sections GPUs and Clusters, in that order', async () => {
    await show(nullTranslator);
    const titles = panel.node.querySelectorAll('.lm-AccordionPanel-title');
    expect(Array.from(titles, title => title.textContent)).toEqual([
      'GPUs',
      'Clusters'
    ]);
  });

  it('is one region with a name for screen readers', async () => {
    await show(nullTranslator);
    const region = panel.node.querySelector(
      '[role="region"][aria-label="GPU Dask"]'
    );
    expect(region).toBe(panel.content.node);
  });

  it('says in each empty section what to type instead', async () => {
    await show(nullTranslator);
    const code = panel.node.querySelectorAll('.jp-GpuDask-section code');
    expect(Array.from(code, element => element.textContent)).toEqual([
      '%load_ext jupyter_gpudask\n%gpudask gpus',
      '%load_ext jupyter_gpudask\n%gpudask start'
    ]);
  });

  it('takes every sentence, and no code, through the translator', async () => {
    await show(markingTranslator);
    const sentences = panel.node.querySelectorAll(
      '.lm-AccordionPanel-titleLabel, .jp-GpuDask-empty p'
    );
    expect(sentences).toHaveLength(6);
    sentences.forEach(sentence =>
      expect(sentence.textContent).toMatch(/^«.+»$/)
    );
    expect(panel.title.caption).toBe('«GPU Dask»');
    panel.node
      .querySelectorAll('code')
      .forEach(code => expect(code.textContent).not.toContain('«'));
  });
});
