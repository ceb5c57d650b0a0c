/**
 * The main states in both themes: compared with the reference pictures, and checked with axe.
 *
 * The stream is simulated and static. All text uses a font that is installed with the tests.
 */
import AxeBuilder from '@axe-core/playwright';
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import { Locator, Page, test as plainTest } from '@playwright/test';
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
      result_bytes: 2 ** 30,
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
  failed: { gpus: 2, workers: 2, cluster: FAILED['process-silent'] },
  refused: { gpus: 2, workers: 2, cluster: FAILED['gpus-reserved'] },
  'no-cluster': { gpus: 2, workers: null },
  'hidden-use': { gpus: 2, workers: null, gpu: { hidden_use: true } },
  'no-gpu': {
    gpus: 0,
    workers: 2,
    cluster: FAILED['no-driver'],
    gpuList: {
      reason: 'This machine has no NVIDIA driver.',
      fix: 'Install one, or use a CPU cluster.'
    }
  }
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

/** The serious and critical violations in a part of the page; of the dark theme those of colors, as all others are the same. */
async function violations(
  page: Page,
  selector: string,
  theme: string
): Promise<string[]> {
  const axe = new AxeBuilder({ page }).include(selector);
  if (theme === 'dark') {
    axe.withTags('cat.color');
  }
  const results = await axe.analyze();
  return results.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, any }) => `${id}: ${html} ${any[0]?.message ?? ''}`)
    );
}

/** Compare a part of the page with its reference picture, if it has one, and check it with axe. */
async function check(
  page: IJupyterLabPageFixture,
  part: Locator,
  theme: string,
  name = ''
): Promise<void> {
  if (name) {
    // No button is shown as under the mouse.
    await page.mouse.move(VIEWPORT.width / 2, 2);
    const mask = [page.locator('.jp-SidePanel-header .jp-GpuDask-secondary')];
    await expect.soft(part).toHaveScreenshot(`${name}-${theme}.png`, { mask });
  }
  await part.evaluate(node => node.setAttribute('data-checked', ''));
  const found = await violations(page, '[data-checked]', theme);
  await part.evaluate(node => node.removeAttribute('data-checked'));
  expect.soft(found, name).toEqual([]);
}

test.use({
  autoGoto: false,
  viewport: VIEWPORT,
  timezoneId: 'UTC',
  locale: 'en-US'
});

for (const theme of ['light', 'dark']) {
  const title = theme === 'light' ? 'JupyterLab Light' : 'JupyterLab Dark';

  test(`each state looks as its picture in the ${theme} theme, without a serious violation`, async ({
    page,
    request,
    tmpPath
  }) => {
    test.slow();
    const show = await playScene(page, SCENES.busy);
    await page.goto();
    await useFont(page);
    await page.theme.setTheme(title);
    await page.sidebar.openTab('jupyter-gpudask-panel');
    await page.sidebar.setWidth(320, 'left');
    const panel = gpuDaskPanel(page);
    const meters = panel.getByRole('meter', { name: /^GPU \d+ busy$/ });
    /** Show a scene as after a reload: without rows that were expanded before. */
    const reshow = async (scene: IScene): Promise<void> => {
      show({ gpus: 0, workers: null });
      await expect(meters).toHaveCount(0);
      show(scene);
      await expect(meters).toHaveCount(scene.gpus);
    };
    for (const [name, scene] of Object.entries(SCENES)) {
      await reshow(scene);
      await check(page, panel, theme, `panel-${name}`);
    }

    await reshow(SCENES.failed);
    await panel.getByRole('button', { name: 'Logs: train.ipynb' }).click();
    const logs = page.locator('.jp-GpuDask-logs');
    await expect(logs).toContainText('Traceback');
    await check(page, logs, theme);
    await page.activity.closeAll();

    for (const name of ['busy', 'refused']) {
      await reshow(SCENES[name]);
      await page.sidebar.setWidth(230, 'left');
      await check(page, panel, theme, `panel-narrow-${name}`);
    }
    await page.sidebar.setWidth(320, 'left');

    // Eight GPUs and a cluster on all of them fit.
    await reshow(SCENES['eight-gpus']);
    for (const [width, height] of [
      [1440, 900],
      [1100, 700]
    ]) {
      await page.setViewportSize({ width, height });
      const needed = [
        panel.getByRole('button', { name: 'GPU 7: train.ipynb' }),
        ...['Plots', 'Logs', 'Stop', 'More actions'].map(name =>
          panel.getByRole('button', { name: `${name}: train.ipynb` })
        )
      ];
      for (const each of needed) {
        await expect(each).toBeInViewport({ ratio: 1 });
      }
      await check(page, panel, theme, `panel-eight-gpus-${width}`);
    }
    await page.setViewportSize(VIEWPORT);

    show(SCENES.busy);
    await page.sidebar.close('left');
    await runFromPalette(page, 'Show GPU History');
    const history = page.locator('#jupyter-gpudask-history');
    await expect(history.getByRole('img')).toHaveCount(12);
    await check(page, history, theme, 'history');
    await page.activity.closeAll();

    show(SCENES['no-cluster']);
    await uploadNotebook(request, `${tmpPath}/analysis.ipynb`);
    await page.sidebar.openTab('filebrowser');
    await page.notebook.openByPath(`${tmpPath}/analysis.ipynb`);
    await expectIdleKernel(page);
    await check(page, page.locator('.jp-GpuDask-toolbarButton'), theme);
    await page.sidebar.openTab('jupyter-gpudask-panel');
    await page
      .getByRole('button', { name: 'Options…: analysis.ipynb' })
      .click();
    const dialog = page.getByRole('dialog');
    const content = page.locator('.jp-Dialog-content');
    await check(page, content, theme, 'dialog');
    await dialog.getByText('More options').click();
    await dialog.getByLabel('Threads').fill('many');
    await dialog.getByRole('button', { name: 'Start' }).click();
    await expect(dialog.getByRole('alert')).toBeVisible();
    await check(page, content, theme);
    await dialog.getByRole('button', { name: 'Cancel' }).click();

    // It follows the number of GPUs, and fits into a small window.
    show({ gpus: 8, workers: null });
    await page.setViewportSize({ width: 1100, height: 700 });
    await page
      .getByRole('button', { name: 'Options…: analysis.ipynb' })
      .click();
    for (const each of [
      dialog.getByLabel('Runs on'),
      dialog.locator('.jp-GpuDask-magic'),
      dialog.getByRole('button', { name: 'Start' })
    ]) {
      await expect(each).toBeInViewport({ ratio: 1 });
    }
    const cut = await dialog
      .locator('.jp-GpuDask-field > p')
      .evaluateAll(hints =>
        hints
          .filter(
            ({ scrollHeight, clientHeight }) => scrollHeight > clientHeight
          )
          .map(({ textContent }) => textContent)
      );
    expect(cut).toEqual([]);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.setViewportSize(VIEWPORT);
    await page.notebook.close(false);

    await reshow(SCENES.busy);
    show({ ...SCENES.busy, isLost: true });
    await expect(panel.getByText('Retrying in').first()).toBeVisible();
    await check(page, panel, theme, 'panel-connection-lost');
  });
}

plainTest(
  'the panel in Notebook 7, where the name of a cluster opens its notebook in a new tab',
  async ({ page, request }) => {
    await uploadNotebook(request, 'train.ipynb');
    await page.setViewportSize(VIEWPORT);
    await useDefaultTheme(page);
    const show = await playScene(page, SCENES.busy);
    await page.goto('/tree');
    await useFont(page);
    await runFromPalette(page, 'Show GPU Dask Panel');
    const panel = gpuDaskPanel(page);
    await expect(panel.getByText('train.ipynb').first()).toBeVisible();
    await expect(panel).toHaveScreenshot('panel-notebook-7.png');
    const opened = page.waitForEvent('popup');
    const name = panel.getByRole('button', {
      name: 'train.ipynb',
      exact: true
    });
    await name.press('Enter');
    expect((await opened).url()).toContain('/notebooks/train.ipynb');
    await (await opened).close();
    await request.delete('/api/contents/train.ipynb');
    await name.blur();
    show(SCENES.refused);
    await expect(panel.getByText('failed').first()).toBeVisible();
    await expect(panel).toHaveScreenshot('panel-notebook-7-refused.png');
  }
);
