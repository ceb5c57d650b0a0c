/**
 * Scaling from the card, and messages for invalid values.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  chooseAction,
  clusterCard,
  gpuDaskPanel,
  openAnalysis
} from './helpers';

test.beforeEach(async ({ page, request, tmpPath }) => {
  await openAnalysis(page, request, tmpPath);
});

test('the card scales a cluster within its limits', async ({
  page
}, testInfo) => {
  const panel = gpuDaskPanel(page);
  await panel.getByRole('button', { name: 'Start: analysis.ipynb' }).click();
  const card = clusterCard(page);
  await expect(card.getByText('ready')).toBeVisible();

  const workers = card
    .getByRole('list', { name: 'Workers' })
    .getByRole('listitem');
  await expect(workers).toHaveCount(2);
  await chooseAction(card, 'Scale Cluster');
  const dialog = page.getByRole('dialog');
  const number = dialog.getByRole('spinbutton', { name: 'Workers' });
  await expect(number).toBeFocused();
  await expect(number).toHaveValue('2');
  await expect(dialog).toContainText(
    'the number of GPUs that the cluster holds'
  );
  await number.fill('3');
  await page.keyboard.press('Enter');
  await expect(dialog.getByRole('alert')).toHaveText(
    'Enter a whole number from 1 to 2.'
  );
  await page.screenshot({ path: testInfo.outputPath('scale.png') });
  await number.press('ArrowDown');
  await number.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(dialog).toBeHidden();
  await expect(workers).toHaveCount(1);
  await expect(card).toContainText('1 of 2 × H200');
  await expect(
    page
      .locator('.jp-GpuDask-toolbarButton')
      .getByRole('button', { name: '1 of 2 × H200' })
  ).toBeVisible();
  await expect(page.locator('.jp-GpuDask-statusItem')).toContainText(
    /^1 GPU .* of 140 GiB$/
  );
  await page.screenshot({ path: testInfo.outputPath('scaled.png') });

  await chooseAction(card, 'Scale Cluster');
  await number.fill('2');
  await dialog.getByRole('button', { name: 'Scale' }).click();
  await expect(workers).toHaveCount(2);

  await chooseAction(card, 'Scale Cluster');
  await dialog.getByLabel('Adaptive').check();
  const most = dialog.getByRole('spinbutton', { name: 'Most workers' });
  await expect(most).toHaveValue('2');
  await most.fill('3');
  await page.keyboard.press('Enter');
  await expect(dialog.getByRole('alert')).toHaveText(
    'Enter a whole number from 1 to 2.'
  );
  await page.screenshot({ path: testInfo.outputPath('adaptive.png') });
  await most.fill('2');
  await page.keyboard.press('Enter');
  await expect(card).toContainText('1 to 2 workers, as needed');
  // One is closed, because there is no work.
  await expect(workers).toHaveCount(1);
});

test('the message for a refused value has the label of its field', async ({
  page
}) => {
  const panel = gpuDaskPanel(page);
  await panel.getByRole('button', { name: 'Options…: analysis.ipynb' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Memory pool').fill('lots');
  await dialog.getByRole('button', { name: 'Start' }).click();
  const problem = dialog.getByRole('alert');
  await expect(problem).toContainText("Memory pool 'lots' is not allowed");
  await expect(problem).not.toContainText('--');
});
