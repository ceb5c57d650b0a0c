/**
 * What the main states look like, in light and in dark: pictures that a change of the layout must not alter unseen.
 *
 * What is shown is played and stands still. All text is in a font that comes with these tests.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import { Locator, Page, test as plainTest } from '@playwright/test';
import { readFile } from 'fs/promises';

import {
  expectIdleKernel,
  gpuDaskPanel,
  runFromPalette,
  uploadNotebook
} from './helpers';
import { FAILED, IScene, playScene } from './mockStream';

const VIEWPORT = { width: 1100, height: 800 };

const THEMES = { light: 'JupyterLab Light', dark: 'JupyterLab Dark' };

const IDLE = {
  state: {
    engine: 'cuda',
    status: 'ready',
    time: 0,
    tasks_waiting: 0,
    tasks_unfinished: 0,
    workers: []
  }
};

const SCENES: { [name: string]: IScene } = {
  busy: { gpus: 2, workers: 2 },
  'ready-without-workers': { gpus: 2, workers: 2, cluster: IDLE },
  starting: {
    gpus: 2,
    workers: 2,
    cluster: { status: 'starting', workers_ready: 1, state: null }
  },
  failed: {
    gpus: 2,
    workers: 2,
    cluster: FAILED
  },
  'no-cluster': { gpus: 2, workers: null },
  'no-gpu': {
    gpus: 0,
    workers: null,
    gpuList: {
      reason: 'This machine has no NVIDIA driver.',
      fix: 'Install one, or use the CPU stand-in.'
    }
  },
  'connection-lost': { gpus: 2, workers: 2, isLost: true }
};

/** Put all text of the page into the font of the pictures, and the countdown into a box of one width. */
async function dress(page: Page): Promise<void> {
  const faces = [400, 600].map(async weight => {
    const file = `@fontsource/inter/files/inter-latin-${weight}-normal.woff2`;
    const content = await readFile(require.resolve(file), 'base64');
    return `@font-face {
      font-family: Pictures;
      font-weight: ${weight};
      src: url(data:font/woff2;base64,${content});
    }`;
  });
  const content = `${(await Promise.all(faces)).join('')}
    :root, body {
      --jp-ui-font-family: Pictures !important;
      --jp-code-font-family: Pictures !important;
    }
    * {
      font-family: Pictures !important;
      /* The letters stand where the font says, however the machine hints. */
      text-rendering: geometricPrecision !important;
    }
    .jp-SidePanel-header .jp-GpuDask-quiet {
      display: inline-block;
      width: 100px;
    }`;
  await page.addStyleTag({ content });
  await page.evaluate(() =>
    Promise.all(
      [400, 600].map(each => document.fonts.load(`${each} 12px Pictures`))
    )
  );
}

/** Compare with the picture of that name in both themes. */
async function expectPictures(
  page: IJupyterLabPageFixture,
  subject: Locator,
  name: string
): Promise<void> {
  for (const [theme, title] of Object.entries(THEMES)) {
    await page.theme.setTheme(title);
    await expect
      .soft(subject)
      .toHaveScreenshot(`${name}-${theme}.png`, { mask: countdowns(page) });
  }
}

function countdowns(page: Page): Locator[] {
  return [page.locator('.jp-SidePanel-header .jp-GpuDask-quiet')];
}

test.use({
  autoGoto: false,
  viewport: VIEWPORT,
  timezoneId: 'UTC',
  locale: 'en-US'
});

for (const [name, scene] of Object.entries(SCENES)) {
  test(`the panel: ${name}`, async ({ page }) => {
    await playScene(page, scene);
    await page.goto();
    await dress(page);
    await page.sidebar.openTab('jupyter-gpudask-panel');
    await page.sidebar.setWidth(320, 'left');
    const panel = gpuDaskPanel(page);
    const news = scene.isLost ? 'Next try in' : 'Clusters';
    await expect(panel.getByText(news).first()).toBeVisible();
    await expectPictures(page, panel, `panel-${name}`);
    if (name === 'busy') {
      await page.sidebar.setWidth(230, 'left');
      await expectPictures(page, panel, 'panel-narrow');
    }
  });
}

test('the history', async ({ page }) => {
  await playScene(page, { gpus: 2, workers: 2 });
  await page.goto();
  await dress(page);
  await page.sidebar.close('left');
  await runFromPalette(page, 'Show GPU History');
  const history = page.locator('#jupyter-gpudask-history');
  await expect(history.getByRole('img')).toHaveCount(8);
  await expectPictures(page, history, 'history');
});

test('the dialog that starts a cluster', async ({ page, request, tmpPath }) => {
  await playScene(page, { gpus: 2, workers: null });
  await uploadNotebook(request, `${tmpPath}/analysis.ipynb`);
  await page.goto();
  await dress(page);
  await page.notebook.openByPath(`${tmpPath}/analysis.ipynb`);
  await expectIdleKernel(page);
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.getByRole('button', { name: 'Options…: analysis.ipynb' }).click();
  await expectPictures(page, page.locator('.jp-Dialog-content'), 'dialog');
});

plainTest('the panel in Notebook 7', async ({ page }) => {
  await page.setViewportSize(VIEWPORT);
  await playScene(page, SCENES.busy);
  await page.goto('/tree');
  await dress(page);
  await runFromPalette(page, 'Show GPU Dask panel');
  const panel = gpuDaskPanel(page);
  await expect(panel.getByText('train.ipynb').first()).toBeVisible();
  await expect(panel).toHaveScreenshot('panel-notebook-7.png');
});
