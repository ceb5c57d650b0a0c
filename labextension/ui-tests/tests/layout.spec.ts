/**
 * How the panel uses its place, and what it leaves out, in simulated streams.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';

import {
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  uploadNotebook
} from './helpers';
import { IScene, playScene } from './mockStream';

const THEMES = ['JupyterLab Dark', 'JupyterLab Light'];

/** Without a place where a line could break. */
const LONG_NAME = `measurements_${'of_the_fluid_simulation_'.repeat(6)}2026.ipynb`;

/** The elements of a dialog whose content is wider than they are, or that leave it. */
function overflowing(dialog: Locator): Promise<string[]> {
  return dialog.locator('.jp-Dialog-content').evaluate(content => {
    const outer = content.getBoundingClientRect();
    return [content, ...content.querySelectorAll('*')]
      .filter(
        each =>
          (each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1) ||
          each.getBoundingClientRect().right > outer.right + 1
      )
      .map(({ tagName, className }) => `${tagName} ${className}`);
  });
}

test.use({ autoGoto: false });

test('the panel fits its place, whatever it shows', async ({ page }) => {
  const starting: IScene = {
    gpus: 2,
    workers: 2,
    cluster: { status: 'starting', workers_ready: 1, state: null }
  };
  const show = await playScene(page, starting);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await page.goto();
  await page.sidebar.openTab('jupyter-gpudask-panel');
  const panel = gpuDaskPanel(page);

  await test.step('nothing moves with reduced motion', async () => {
    await expect(panel.getByText('starting 1 of 2').last()).toBeVisible();
    const isMoving = await panel.evaluate(node =>
      node
        .getAnimations({ subtree: true })
        .some(({ playState }) => playState === 'running')
    );
    expect(isMoving).toBe(false);
  });

  await test.step('no section has a scroll bar while both fit', async () => {
    await page.setViewportSize({ width: 1200, height: 1000 });
    const sections = panel.locator('.jp-GpuDask-section');
    const hidden = (): Promise<number[]> =>
      sections.evaluateAll(all =>
        all.map(each => each.scrollHeight - each.clientHeight)
      );
    for (const gpus of [0, 2, 8]) {
      show({ gpus, workers: 2 });
      const meters = panel.getByRole('meter', { name: /^GPU \d+ busy$/ });
      await expect(meters).toHaveCount(gpus);
      await expect.poll(hidden).toEqual([0, 0]);
    }
  });

  await test.step('a narrow panel shows all buttons of a cluster', async () => {
    show({ gpus: 2, workers: 2 });
    await page.sidebar.setWidth(220, 'left');
    const card = clusterCard(page, 'train.ipynb');
    const { x, width } = (await card.boundingBox())!;
    await expect(card.getByRole('button')).not.toHaveCount(0);
    for (const button of await card.getByRole('button').all()) {
      const box = (await button.boundingBox())!;
      expect(box.x + box.width).toBeLessThanOrEqual(x + width);
    }
  });

  await test.step('the keyboard reaches all of 500 workers', async () => {
    show({ gpus: 0, workers: 500 });
    const list = panel.getByRole('list', { name: 'Workers of train.ipynb' });
    await expect(list.getByRole('listitem')).toHaveCount(500);
    await list.focus();
    await page.keyboard.press('End');
    await expect(list.getByText('Worker 499')).toBeInViewport();
    await expect(async () => {
      await page.keyboard.press('Home');
      await expect(list.getByText('Worker 0', { exact: true })).toBeInViewport({
        timeout: 2000
      });
    }).toPass();
  });
});

test('a long name of a notebook is wrapped in the start dialog, and a lost connection makes its state gray', async ({
  page,
  request,
  tmpPath
}) => {
  const holder = { name: LONG_NAME, kernel_id: 'other', share: false };
  const scene: IScene = {
    gpus: 2,
    workers: null,
    gpu: { holders: [holder] }
  };
  const show = await playScene(page, scene);
  await page.setViewportSize({ width: 853, height: 480 });
  await uploadNotebook(request, `${tmpPath}/${LONG_NAME}`);
  await page.goto();
  await page.notebook.openByPath(`${tmpPath}/${LONG_NAME}`);
  await expectIdleKernel(page);
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await gpuDaskPanel(page)
    .getByRole('button', { name: `Options…: ${LONG_NAME}` })
    .click();
  const dialog = page.getByRole('dialog');
  await expect(
    dialog.getByText(`Start a cluster for ${LONG_NAME}`)
  ).toBeVisible();
  await expect(
    dialog.getByText(`reserved by ${LONG_NAME}`).first()
  ).toBeVisible();
  expect(await overflowing(dialog)).toEqual([]);
  // The title is as wide as the form, and does not widen the dialog.
  const box = (await dialog.locator('.jp-Dialog-content').boundingBox())!;
  const form = (await dialog.locator('.jp-GpuDask-form').boundingBox())!;
  expect(box.width - form.width).toBeLessThan(80);
  await expect(dialog.getByRole('button', { name: 'Start' })).toBeInViewport();
  await dialog.getByRole('button', { name: 'Cancel' }).click();

  await page.setViewportSize({ width: 1280, height: 800 });
  const sessions = await (await request.get('/api/sessions')).json();
  const { kernel } = sessions.find(({ path }: { path: string }) =>
    path.startsWith(tmpPath)
  );
  const cluster = { kernel_id: kernel.id, name: LONG_NAME };
  show({ gpus: 2, workers: 2, cluster });
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  await expect(toolbar.getByRole('button', { name: '2 × H200' })).toBeVisible();
  show({ gpus: 2, workers: 2, cluster, isLost: true });
  await expect(
    gpuDaskPanel(page).getByText('The connection to the server is lost.')
  ).toBeVisible();
  await expect(toolbar.getByTitle(/no data from the server/)).toBeVisible();
  for (const theme of THEMES) {
    await page.theme.setTheme(theme);
    const gray = await page.evaluate(() => {
      const probe = document.createElement('p');
      probe.style.color = 'var(--jp-ui-font-color2)';
      document.body.append(probe);
      const { color } = getComputedStyle(probe);
      probe.remove();
      return color;
    });
    const item = page.locator('.jp-GpuDask-statusItem');
    await expect(item).toHaveCSS('color', gray);
    const label = toolbar.locator('.jp-ToolbarButtonComponent-label');
    await expect(label).toHaveCSS('color', gray);
    await expect(toolbar.locator('svg').first()).toHaveCSS('opacity', '0.5');
  }
});
