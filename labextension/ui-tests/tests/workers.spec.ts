/**
 * A cluster with more workers than fit, in a simulated stream.
 */
import { expect, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';

import { gpuDaskPanel } from './helpers';
import { playScene } from './mockStream';

test.use({ autoGoto: false });

test('of 500 workers only the visible ones are rendered, and the keyboard reaches all', async ({
  page
}, testInfo) => {
  await playScene(page, { gpus: 0, workers: 500 });
  await page.goto();
  await page.sidebar.openTab('jupyter-gpudask-panel');
  const list = gpuDaskPanel(page).getByRole('group', {
    name: 'Workers of train.ipynb'
  });
  const rows = list.getByRole('listitem');
  await expect(rows.first()).toHaveAttribute('aria-setsize', '500');
  expect(await rows.count()).toBeLessThan(50);
  // The list takes the height that the rest of the panel leaves.
  const bottom = async (locator: Locator): Promise<number> => {
    const { y, height } = (await locator.boundingBox())!;
    return y + height;
  };
  const free = async (): Promise<number> =>
    (await bottom(gpuDaskPanel(page))) - (await bottom(list));
  await expect.poll(free).toBeLessThan(40);
  await page.setViewportSize({ width: 1024, height: 1000 });
  await expect.poll(free).toBeLessThan(40);
  expect((await list.boundingBox())!.height).toBeGreaterThan(400);
  await page.setViewportSize({ width: 1024, height: 500 });
  await expect
    .poll(async () => (await list.boundingBox())!.height)
    .toBeLessThan(400);
  await page.setViewportSize({ width: 1024, height: 768 });
  await page.screenshot({ path: testInfo.outputPath('top.png') });

  await list.focus();
  await page.keyboard.press('End');
  await expect(list.getByText('Worker 499')).toBeInViewport();
  await expect(rows.last()).toHaveAttribute('aria-posinset', '500');
  expect(await rows.count()).toBeLessThan(50);
  await page.screenshot({ path: testInfo.outputPath('end.png') });

  await page.keyboard.press('Home');
  await expect(list.getByText('Worker 0')).toBeInViewport();
});
