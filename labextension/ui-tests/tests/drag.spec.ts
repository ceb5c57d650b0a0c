/**
 * The code for the Dask client is dragged from the card of a cluster into a cell.
 */
import { expect, test } from '@jupyterlab/galata';

import { clusterCard, openAnalysis, startOnCpu } from './helpers';

test('the code for the Dask client can be dragged from the card into a cell, where it works', async ({
  page,
  request,
  tmpPath
}) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page);
  const name = clusterCard(page).getByRole('button', {
    name: 'analysis.ipynb',
    exact: true
  });
  const cells = page.locator('.jp-NotebookPanel .jp-Cell');
  const editor = cells.first().locator('.cm-content');
  await name.dragTo(editor);
  await expect(editor).toHaveText(
    /^%load_ext jupyter_gpudask\s*cluster = %gpudask start\s*client = cluster.client$/
  );
  await page.notebook.enterCellEditingMode(0);
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\nlen(client.scheduler_info()["workers"])');
  await page.keyboard.press('Control+Enter');
  await expect(cells.first().locator('.jp-OutputArea')).toContainText('1');
});
