/**
 * Screenshots of the main states in both themes, compared with the reference pictures.
 *
 * The stream is simulated and static. All text uses a font that is installed with the tests.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import {
  APIRequestContext,
  Locator,
  Page,
  test as plainTest
} from '@playwright/test';
import { readFile } from 'fs/promises';

import {
  expectIdleKernel,
  gpuDaskPanel,
  runFromPalette,
  uploadNotebook,
  useDefaultTheme
} from './helpers';
import { FAILED, IScene, playScene } from './mockStream';

const VIEWPORT = { width: 1100, height: 800 };

const THEMES = { light: 'JupyterLab Light', dark: 'JupyterLab Dark' };

const IDLE = {
  state: {
    engine: 'cuda',
    status: 'ready',
    time: 0,
    tasks_unfinished: 0,
    workers: []
  }
};

const [HOST, OTHER_HOST] = ['10.0.0.2', '10.0.0.3'];

const HOSTS = {
  state: {
    ...IDLE.state,
    tasks_unfinished: 4096,
    workers: [HOST, HOST, OTHER_HOST].map((host, index) => ({
      name: `SLURMCluster-${index}`,
      host,
      pid: null,
      gpu_index: index % 2,
      gpu_uuid: `${host} ${index}`,
      utilization: 80 + index,
      device_memory_used: 60 * 2 ** 30,
      device_memory_total: 80 * 2 ** 30,
      pool_size: null,
      held: 2 ** 30,
      executing: 1,
      waiting: index,
      status: 'running'
    }))
  },
  notes: [
    'Job 12 is pending in SLURM: Resources, position 3 (worker SLURMCluster-3).'
  ]
};

/** The idle cluster is asked for its GPUs. */
const WANTED = {
  ...IDLE,
  wanted_by: 'user anna since 14:05',
  given_over_at: Date.UTC(2026, 0, 1, 14, 16) / 1000
};

const OWNED =
  'This kernel is connected to tcp://10.0.0.1:8786, which somebody else started.';

const JOINED = {
  ...HOSTS,
  limits: {
    dashboard: 'tcp://10.0.0.1:8786 has no dashboard.',
    stop: `${OWNED} It is not stopped from here.`
  },
  notes: [],
  joined: 'tcp://10.0.0.1:8786',
  gpus: [],
  pid: null,
  dashboard: null
};

const SCENES: { [name: string]: IScene } = {
  busy: { gpus: 2, workers: 2 },
  'eight-gpus': { gpus: 8, workers: 8 },
  'ready-without-workers': { gpus: 2, workers: 2, cluster: IDLE },
  hosts: { gpus: 0, workers: 3, cluster: HOSTS },
  joined: { gpus: 0, workers: 3, cluster: JOINED },
  wanted: { gpus: 2, workers: 2, cluster: WANTED },
  'many-workers': { gpus: 8, workers: 40 },
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

/** Use the font of the pictures for all text, and a fixed width for the countdown. */
async function useFont(page: Page): Promise<void> {
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
      /* Place the letters independently of the machine's hinting. */
      text-rendering: geometricPrecision !important;
    }
    .jp-SidePanel-header .jp-GpuDask-secondary {
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

/** Compare with the reference pictures in both themes. */
async function expectScreenshots(
  page: IJupyterLabPageFixture,
  locator: Locator,
  name: string
): Promise<void> {
  // No button is shown as under the mouse.
  await page.mouse.move(VIEWPORT.width / 2, 2);
  for (const [theme, title] of Object.entries(THEMES)) {
    await page.theme.setTheme(title);
    await expect
      .soft(locator)
      .toHaveScreenshot(`${name}-${theme}.png`, { mask: countdowns(page) });
  }
}

function countdowns(page: Page): Locator[] {
  return [page.locator('.jp-SidePanel-header .jp-GpuDask-secondary')];
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
    await useFont(page);
    await page.sidebar.openTab('jupyter-gpudask-panel');
    await page.sidebar.setWidth(320, 'left');
    const panel = gpuDaskPanel(page);
    const text = scene.isLost ? 'Retrying in' : 'Clusters';
    await expect(panel.getByText(text).first()).toBeVisible();
    await expectScreenshots(page, panel, `panel-${name}`);
    if (name === 'busy') {
      await page.sidebar.setWidth(230, 'left');
      await expectScreenshots(page, panel, 'panel-narrow');
    }
  });
}

for (const [width, height] of [
  [1440, 900],
  [1100, 700]
]) {
  test(`eight GPUs and a cluster on all of them fit into ${width}x${height}`, async ({
    page
  }) => {
    await page.setViewportSize({ width, height });
    await playScene(page, SCENES['eight-gpus']);
    await page.goto();
    await useFont(page);
    await page.sidebar.openTab('jupyter-gpudask-panel');
    await page.sidebar.setWidth(320, 'left');
    const panel = gpuDaskPanel(page);
    const needed = [
      panel.getByRole('button', { name: 'GPU 7: train.ipynb' }),
      ...['Plots', 'Logs', 'Stop', 'More actions'].map(name =>
        panel.getByRole('button', { name: `${name}: train.ipynb` })
      )
    ];
    for (const each of needed) {
      await expect(each).toBeInViewport({ ratio: 1 });
    }
    await expectScreenshots(page, panel, `panel-eight-gpus-${width}`);
  });
}

test('the history', async ({ page }) => {
  await playScene(page, { gpus: 2, workers: 2 });
  await page.goto();
  await useFont(page);
  await page.sidebar.close('left');
  await runFromPalette(page, 'Show GPU History');
  const history = page.locator('#jupyter-gpudask-history');
  await expect(history.getByRole('img')).toHaveCount(13);
  await expectScreenshots(page, history, 'history');
});

async function openStartDialog(
  page: IJupyterLabPageFixture,
  request: APIRequestContext,
  tmpPath: string
): Promise<void> {
  await uploadNotebook(request, `${tmpPath}/analysis.ipynb`);
  await page.goto();
  await useFont(page);
  await page.notebook.openByPath(`${tmpPath}/analysis.ipynb`);
  await expectIdleKernel(page);
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.getByRole('button', { name: 'Options…: analysis.ipynb' }).click();
}

test('the start dialog', async ({ page, request, tmpPath }) => {
  await playScene(page, { gpus: 2, workers: null });
  await openStartDialog(page, request, tmpPath);
  await expectScreenshots(page, page.locator('.jp-Dialog-content'), 'dialog');
});

test('the start dialog for eight GPUs fits into 1100x700', async ({
  page,
  request,
  tmpPath
}) => {
  await page.setViewportSize({ width: 1100, height: 700 });
  await playScene(page, { gpus: 8, workers: null });
  await openStartDialog(page, request, tmpPath);
  const dialog = page.getByRole('dialog');
  for (const each of [
    dialog.getByLabel('Runs on'),
    dialog.locator('.jp-GpuDask-magic'),
    dialog.getByRole('button', { name: 'Start' })
  ]) {
    await expect(each).toBeInViewport({ ratio: 1 });
  }
});

plainTest('the panel in Notebook 7', async ({ page }) => {
  await page.setViewportSize(VIEWPORT);
  await useDefaultTheme(page);
  await playScene(page, SCENES.busy);
  await page.goto('/tree');
  await useFont(page);
  await runFromPalette(page, 'Show GPU Dask Panel');
  const panel = gpuDaskPanel(page);
  await expect(panel.getByText('train.ipynb').first()).toBeVisible();
  await expect(panel).toHaveScreenshot('panel-notebook-7.png');
});
