/**
 * The dialogs for a notebook with a long name, in a window that is zoomed to 150 %.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';

import { expectIdleKernel, gpuDaskPanel, uploadNotebook } from './helpers';
import { playScene } from './mockStream';

/** Without a place where a line could break. */
const NAME = `measurements_${'of_the_fluid_simulation_'.repeat(6)}2026.ipynb`;

/** The elements of a dialog whose content is wider than they are, or that leave it. */
function overflowing(dialog: Locator): Promise<string[]> {
  return dialog.locator('.jp-Dialog-content').evaluate(content => {
    const outer = content.getBoundingClientRect();
    return [content, ...content.querySelectorAll('*')]
      .filter(
        ({ scrollWidth, clientWidth }) =>
          clientWidth > 0 && scrollWidth > clientWidth + 1
      )
      .concat(
        [...content.querySelectorAll('*')].filter(
          each => each.getBoundingClientRect().right > outer.right + 1
        )
      )
      .map(({ tagName, className }) => `${tagName} ${className}`);
  });
}

test.use({
  autoGoto: false,
  viewport: { width: 853, height: 480 },
  deviceScaleFactor: 1.5
});

test('a long name of a notebook is wrapped in the start dialog', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  const holder = { name: NAME, kernel_id: 'other', share: false };
  await playScene(page, { gpus: 2, workers: null, gpu: { holders: [holder] } });
  await page.goto();
  await uploadNotebook(request, `${tmpPath}/${NAME}`);
  await page.notebook.openByPath(`${tmpPath}/${NAME}`);
  await expectIdleKernel(page);
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await gpuDaskPanel(page)
    .getByRole('button', { name: `Options…: ${NAME}` })
    .click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText(`Start a cluster for ${NAME}`)).toBeVisible();
  await expect(dialog.getByText(`held by ${NAME}`).first()).toBeVisible();
  for (const theme of ['JupyterLab Dark', 'JupyterLab Light']) {
    await page.theme.setTheme(theme);
    await page.screenshot({
      path: testInfo.outputPath(`${theme.slice(11)}.png`)
    });
  }
  expect(await overflowing(dialog)).toEqual([]);
  // The title is as wide as the form, and does not widen the dialog.
  const box = await dialog.locator('.jp-Dialog-content').boundingBox();
  const form = await dialog.locator('.jp-GpuDask-form').boundingBox();
  expect((box?.width ?? 0) - (form?.width ?? 0)).toBeLessThan(80);
  await expect(dialog.getByRole('button', { name: 'Start' })).toBeInViewport();
});
