/**
 * What the magics show in a notebook: the start, and the status, which goes on as long as there is a kernel.
 */
import { expect, test } from '@jupyterlab/galata';

import { clusterCard, openAnalysis } from './panel';

test.describe.configure({ timeout: 120000 });

test('the start tells how far it is, and the status is live, and stays in the file', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await page.notebook.setCell(
    0,
    'code',
    '%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2'
  );
  const outputs = page.locator('.jp-Notebook .jp-OutputArea-output');
  const isRun = page.notebook.runCell(0);
  await expect(outputs.first().getByRole('progressbar')).toBeVisible({
    timeout: 20000
  });
  await page.screenshot({ path: testInfo.outputPath('start.png') });
  await isRun;
  await expect(outputs.first()).toContainText('2 workers');
  await expect(outputs.first().getByRole('progressbar')).toBeHidden();

  await page.notebook.setCell(1, 'code', '%gpudask status');
  await page.notebook.runCell(1);
  const status = outputs.last();
  const widget = status.locator('.jupyter-widgets');
  // Tasks that run, and that wait, of a worker.
  await expect(widget).toContainText(/MiB00running/);

  await page.notebook.setCell(
    2,
    'code',
    'import time\nwaits = started.client.map(lambda _: time.sleep(30), range(3), pure=False)'
  );
  await page.notebook.runCell(2);
  await expect(widget).toContainText(/MiB1\drunning/, { timeout: 10000 });
  await page.screenshot({ path: testInfo.outputPath('status.png') });

  // Who gets the file sees a table, although the kernel is not there.
  await page.notebook.save();
  const reply = await request.get(`/api/contents/${tmpPath}/analysis.ipynb`);
  const { content } = await reply.json();
  content.cells[0].source = '# of somebody else, and so not trusted';
  for (const { metadata } of content.cells) {
    delete metadata.trusted;
  }
  await request.put(`/api/contents/${tmpPath}/shared.ipynb`, {
    data: { type: 'notebook', format: 'json', content }
  });

  // When the cluster is gone the widget is a table, too, and can be seen without the kernel.
  await clusterCard(page).getByRole('button', { name: 'Stop' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Stop' }).click();
  await expect(status).toContainText('The cluster was closed');
  await expect(widget).toBeHidden();
  await page.notebook.save();
  await page.notebook.close();
  const sessions = await (await request.get('/api/sessions')).json();
  for (const { kernel } of sessions) {
    await request.delete(`/api/kernels/${kernel.id}`);
  }
  await page.sidebar.openTab('filebrowser');
  for (const name of ['analysis', 'shared']) {
    await page.notebook.openByPath(`${tmpPath}/${name}.ipynb`);
    const shown = outputs.filter({ visible: true }).nth(1);
    await expect(shown.getByRole('table')).toContainText('running');
    await page.screenshot({ path: testInfo.outputPath(`${name}.png`) });
  }
});
