/**
 * The tab with the logs of a cluster.
 */
import { expect, test } from '@jupyterlab/galata';
import { writeFile } from 'fs/promises';

import {
  clusterCard,
  clusterOnServer,
  logsTab,
  openAnalysis,
  startOnCpu
} from './helpers';

test('logs are followed, wrapped, filtered by level and copied', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  await openAnalysis(page, request, tmpPath);
  await startOnCpu(page, 'analysis.ipynb', 1);
  // A task prints, and logs a warning when the file is there.
  const file = testInfo.outputPath('go');
  const long = `a warning ${'that is long '.repeat(60)}`;
  const work = `def work():
    import logging, os, time
    for number in range(150):
        print("line", number)
    while not os.path.exists("${file}"):
        time.sleep(0.1)
    logging.getLogger("distributed.worker").warning("${long}")`;
  await page.notebook.setCell(
    0,
    'code',
    // As a string: the editor would indent the lines.
    `%load_ext jupyter_gpudask\nstarted = %gpudask start\nexec(${JSON.stringify(work)})\n` +
      'task = started.client.submit(work)'
  );
  await page.notebook.runCell(0);
  await clusterCard(page).getByRole('button', { name: 'Logs' }).click();
  const tab = logsTab(page);
  const worker = tab.getByLabel('Worker 0', { exact: true });
  await expect(worker).toContainText('line 149');

  // The end of a log is shown while it is followed, and then stays where it was scrolled to.
  const fromEnd = (): Promise<number> =>
    worker.evaluate(
      ({ scrollHeight, scrollTop, clientHeight }) =>
        scrollHeight - scrollTop - clientHeight
    );
  await expect.poll(fromEnd).toBeLessThan(2);
  await tab.getByLabel('Follow').uncheck();
  await worker.evaluate(node => (node.scrollTop = 0));
  await writeFile(file, '');
  const { kernel_id: kernelId } = await clusterOnServer(request);
  await expect
    .poll(async () =>
      (await request.get(`/gpudask/api/clusters/${kernelId}/logs`)).text()
    )
    .toContain(long.trim());
  await expect(worker).not.toContainText('a warning');
  expect(await fromEnd()).toBeGreaterThan(100);
  await tab.getByLabel('Follow').check();
  await expect(worker).toContainText('a warning');
  await expect.poll(fromEnd).toBeLessThan(2);

  // Long lines are wrapped, or scrolled.
  const width = (): Promise<number> =>
    worker.evaluate(
      ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth
    );
  expect(await width()).toBe(0);
  await tab.getByLabel('Wrap lines').uncheck();
  expect(await width()).toBeGreaterThan(100);
  await tab.getByLabel('Wrap lines').check();

  await tab.getByLabel('Level').selectOption('Warnings and errors');
  await expect(worker).not.toContainText('line 149');
  await expect(worker).toContainText('a warning');
  await page.screenshot({ path: testInfo.outputPath('warnings.png') });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await tab.getByLabel('Worker', { exact: true }).selectOption('Worker 0');
  await tab.getByRole('button', { name: 'Copy' }).click();
  const copied = (): Promise<string> =>
    page.evaluate(() => navigator.clipboard.readText());
  await expect.poll(copied).toContain('# Worker 0\n');
  expect(await copied()).toContain(long.trim());
  expect(await copied()).not.toContain('line 149');

  await tab.getByLabel('Level').selectOption('Errors');
  await expect(worker).toContainText('No line matches.');
});
