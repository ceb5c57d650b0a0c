/**
 * What the sidebar panel shows.
 */
import { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import {
  PanelWithToolbar,
  ReactWidget,
  SidePanel
} from '@jupyterlab/ui-components';
import React from 'react';

import { gpuDaskIcon } from './icon';

/** The id of the panel in the shell, kept in saved layouts. */
export const PANEL_ID = 'jupyter-gpudask-panel';

/** What starts a cluster in a notebook; code, so never translated. */
const START_LINES = '%load_ext jupyter_gpudask\n%gpudask start';

/** What lists the GPUs in a notebook. */
const GPUS_LINES = '%load_ext jupyter_gpudask\n%gpudask gpus';

interface IEmptyStateProps {
  /** What is missing. */
  title: string;
  /** What to do about it; the code below it completes the sentence. */
  hint: string;
  /** Lines to type into a notebook cell. */
  code: string;
}

/** A section without content: what is missing, and how to get it. */
function EmptyState({ title, hint, code }: IEmptyStateProps): JSX.Element {
  return (
    <div className="jp-GpuDask-empty">
      <p className="jp-GpuDask-emptyTitle">{title}</p>
      <p>{hint}</p>
      <pre>
        <code>{code}</code>
      </pre>
    </div>
  );
}

function createSection(title: string, body: JSX.Element): PanelWithToolbar {
  const section = new PanelWithToolbar();
  section.addClass('jp-GpuDask-section');
  section.title.label = title;
  section.addWidget(ReactWidget.create(body));
  return section;
}

function gpuSection(trans: TranslationBundle): PanelWithToolbar {
  return createSection(
    trans.__('GPUs'),
    <EmptyState
      title={trans.__('No GPU figures in this panel yet.')}
      hint={trans.__(
        'To see the GPUs of this machine and who holds them, run in a notebook cell:'
      )}
      code={GPUS_LINES}
    />
  );
}

function clusterSection(trans: TranslationBundle): PanelWithToolbar {
  return createSection(
    trans.__('Clusters'),
    <EmptyState
      title={trans.__('No clusters in this panel yet.')}
      hint={trans.__('To start one for a notebook, run in one of its cells:')}
      code={START_LINES}
    />
  );
}

/**
 * Make the sidebar panel with its two sections.
 *
 * @param translator - turns every visible sentence into the user's language
 * @returns a panel that is ready to be added to a shell's left area
 */
export function createPanel(translator: ITranslator): SidePanel {
  const trans = translator.load('jupyter_gpudask');
  const panel = new SidePanel({ translator });
  panel.id = PANEL_ID;
  panel.addClass('jp-GpuDask');
  panel.title.icon = gpuDaskIcon;
  panel.title.caption = trans.__('GPU Dask');
  // The content is already a region, with a label that fits any side panel.
  panel.content.node.setAttribute('aria-label', trans.__('GPU Dask'));
  panel.addWidget(gpuSection(trans));
  panel.addWidget(clusterSection(trans));
  return panel;
}
