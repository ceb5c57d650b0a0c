/**
 * Accessibility of the panel, its dialogs and the history in both themes, checked with axe.
 */
import AxeBuilder from '@axe-core/playwright';
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';

import {
  expectIdleKernel,
  gpuDaskPanel,
  runFromPalette,
  uploadNotebook
} from './helpers';
import { FAILED, IScene, playScene } from './mockStream';

const SCENES: { [name: string]: IScene } = {
  'no GPU': {
    gpus: 0,
    workers: null,
    gpuList: {
      reason: 'This machine has no NVIDIA driver.',
      fix: 'Install the driver, or use the CPU stand-in.'
    }
  },
  'idle GPUs': { gpus: 2, workers: null },
  'GPUs that another container uses': {
    gpus: 2,
    workers: null,
    gpu: { hidden_use: true }
  },
  'a cluster that starts': {
    gpus: 2,
    workers: 2,
    cluster: { status: 'starting', workers_ready: 1, state: null }
  },
  'a cluster that runs': { gpus: 4, workers: 4 },
  'many workers': { gpus: 4, workers: 64 },
  'a connection that is lost': { gpus: 2, workers: 2, isLost: true },
  'a cluster that failed': { gpus: 2, workers: 2, cluster: FAILED }
};

const THEMES = ['JupyterLab Light', 'JupyterLab Dark'];

/** The serious and critical violations in a part of the page. */
async function obstacles(
  page: IJupyterLabPageFixture,
  selector: string
): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    .include(selector)
    .analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, any }) => `${id}: ${html} ${any[0]?.message ?? ''}`)
    );
}

/** Check a part of the page in each theme. */
async function expectNoObstacles(
  page: IJupyterLabPageFixture,
  selector: string
): Promise<void> {
  for (const theme of THEMES) {
    await page.theme.setTheme(theme);
    expect.soft(await obstacles(page, selector), theme).toEqual([]);
  }
}

test.describe('there is no serious violation', () => {
  test.use({ autoGoto: false });

  for (const [name, scene] of Object.entries(SCENES)) {
    test(`in the panel with ${name}`, async ({ page }, testInfo) => {
      await playScene(page, scene);
      await page.goto();
      await page.sidebar.openTab('jupyter-gpudask-panel');
      const text = scene.isLost ? 'Retrying in' : 'Clusters';
      await expect(gpuDaskPanel(page).getByText(text).first()).toBeVisible();
      await expectNoObstacles(page, '#jupyter-gpudask-panel');
      await page.screenshot({ path: testInfo.outputPath('panel.png') });
    });
  }

  test('in the history', async ({ page }) => {
    await playScene(page, { gpus: 4, workers: 4 });
    await page.goto();
    await runFromPalette(page, 'Show GPU History');
    await expect(page.getByRole('img', { name: 'GPUs: Busy' })).toBeVisible();
    await expectNoObstacles(page, '#jupyter-gpudask-history');
  });

  test('in the logs', async ({ page }) => {
    await playScene(page, SCENES['a cluster that failed']);
    await page.goto();
    await page.sidebar.openTab('jupyter-gpudask-panel');
    await page.getByRole('button', { name: 'Logs: train.ipynb' }).click();
    await expect(page.locator('.jp-GpuDask-logs')).toContainText('Traceback');
    await expectNoObstacles(page, '.jp-GpuDask-logs');
  });
});

test('there is no serious violation in the start dialog and the toolbar', async ({
  page,
  request,
  tmpPath
}) => {
  await uploadNotebook(request, `${tmpPath}/analysis.ipynb`);
  await page.notebook.openByPath(`${tmpPath}/analysis.ipynb`);
  await expectIdleKernel(page);
  await expectNoObstacles(page, '.jp-GpuDask-toolbarButton');
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.getByRole('button', { name: 'Options…: analysis.ipynb' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Threads').fill('many');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await expect(dialog.getByRole('alert')).toBeVisible();
  await expectNoObstacles(page, '.jp-Dialog-content');
});

test.describe('with assistive settings', () => {
  test.use({ autoGoto: false });

  test('the state of a cluster is announced, but not its metrics', async ({
    page
  }) => {
    await playScene(page, SCENES['a cluster that starts'], 500);
    await page.goto();
    await page.sidebar.openTab('jupyter-gpudask-panel');
    const announcer = gpuDaskPanel(page).getByRole('status');
    await expect(announcer).toHaveText(
      'train.ipynb: starting 1 of 2, 2 × H200'
    );
    await expect(announcer).toHaveAttribute('aria-live', 'polite');
  });

  test('nothing moves with reduced motion', async ({ page }) => {
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await playScene(page, SCENES['a cluster that starts']);
    await page.goto();
    await page.sidebar.openTab('jupyter-gpudask-panel');
    const panel = gpuDaskPanel(page);
    await expect(panel.getByText('starting 1 of 2').last()).toBeVisible();
    const moving = await panel.evaluate(
      node =>
        node
          .getAnimations({ subtree: true })
          .filter(animation => animation.playState === 'running').length
    );
    expect(moving).toBe(0);
    await expect(panel.getByRole('meter').first()).toHaveAttribute(
      'aria-valuetext',
      /%/
    );
  });
});
