/**
 * A cluster with more workers than fit, in a simulated stream.
 */
import { expect, test } from '@jupyterlab/galata';

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
