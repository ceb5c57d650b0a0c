/**
 * The heights of the sections of the panel, in a simulated stream.
 */
import { expect, test } from '@jupyterlab/galata';

import { gpuDaskPanel } from './helpers';
import { playScene } from './mockStream';

test.use({ autoGoto: false });

for (const gpus of [0, 2, 8]) {
  test(`with ${gpus} GPUs no section has a scroll bar while both fit`, async ({
    page
  }) => {
    await playScene(page, { gpus, workers: 2 });
    await page.setViewportSize({ width: 1200, height: 1000 });
    await page.goto();
    await page.sidebar.openTab('jupyter-gpudask-panel');
    const panel = gpuDaskPanel(page);
    await expect(panel.getByText('train.ipynb').first()).toBeVisible();
    const sections = panel.locator('.jp-GpuDask-section');
    await expect(sections).toHaveCount(2);
    const hidden = (): Promise<number[]> =>
      sections.evaluateAll(all =>
        all.map(each => each.scrollHeight - each.clientHeight)
      );
    await expect.poll(hidden).toEqual([0, 0]);
  });
}
