/**
 * The tab with the logs of a cluster.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';
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

/** Stack the notebook, a plot and a console in one column. */
async function stack(page: IJupyterLabPageFixture): Promise<void> {
  await clusterCard(page).getByRole('button', { name: 'Plots' }).click();
  await expect(
    page.getByRole('tab', { name: 'Progress: analysis.ipynb' })
  ).toBeVisible();
  await page.evaluate(async () => {
    const { shell, commands } = window.jupyterapp;
    const find = (label: string) =>
      [...shell.widgets('main')].find(({ title }) =>
        title.label.startsWith(label)
      );
    const notebook = find('analysis.ipynb');
    [...shell.widgets('main')]
      .filter(each => each !== notebook && each !== find('Task Stream'))
      .forEach(each => each.close());
    const plot = find('Task Stream');
    if (notebook && plot) {
      shell.add(plot, 'main', { mode: 'split-bottom', ref: notebook.id });
      await commands.execute('console:create', {
        kernelPreference: { shouldStart: false, autoStartDefault: false },
        insertMode: 'split-bottom',
        ref: plot.id
      });
      shell.activateById(notebook.id);
    }
  });
}

/** How many lines of text are visible in logs. */
async function visibleLines(tab: Locator): Promise<number> {
  return tab.locator('.jp-GpuDask-live').evaluate(node => {
    const outer = node.getBoundingClientRect();
    const bar = node.querySelector('.jp-GpuDask-tabToolbar');
    const top = bar?.getBoundingClientRect().bottom ?? outer.top;
    return [...node.querySelectorAll('pre')]
      .map(pre => {
        const box = pre.getBoundingClientRect();
        const height =
          Math.min(box.bottom, outer.bottom) - Math.max(box.top, top) - 16;
        return height / parseFloat(getComputedStyle(pre).lineHeight);
      })
      .reduce((total, each) => total + Math.max(0, Math.floor(each)), 0);
  });
}

test.describe('in a window of 1280x720', () => {
  test.use({ viewport: { width: 1280, height: 720 } });

  test('at least ten lines of the logs are visible below a notebook, and where a plot and a console are stacked below it', async ({
    page,
    request,
    tmpPath
  }, testInfo) => {
    await openAnalysis(page, request, tmpPath);
    await startOnCpu(page, 'analysis.ipynb', 1);
    await page.notebook.setCell(
      0,
      'code',
      '%load_ext jupyter_gpudask\nstarted = %gpudask start\n' +
        'started.client.submit(lambda: print("a line\\n" * 100)).result()'
    );
    await page.notebook.runCell(0);
    const logs = clusterCard(page).getByRole('button', { name: 'Logs' });
    const tab = logsTab(page);
    const expectTenLines = async (name: string): Promise<void> => {
      await expect(tab.getByLabel('Worker 0', { exact: true })).toContainText(
        'a line'
      );
      await tab.getByLabel('Worker', { exact: true }).selectOption('Worker 0');
      await expect.poll(() => visibleLines(tab)).toBeGreaterThanOrEqual(10);
      for (const theme of ['JupyterLab Dark', 'JupyterLab Light']) {
        await page.theme.setTheme(theme);
        await page.screenshot({
          path: testInfo.outputPath(`${name}-${theme.slice(11)}.png`)
        });
      }
    };
    await logs.click();
    await expectTenLines('notebook');
    await page.activity.closePanel('Logs: analysis.ipynb');
    await expect(tab).toBeHidden();

    await stack(page);
    await expect(
      page.getByRole('tabpanel', { name: /^Console/ }).first()
    ).toBeVisible();
    await logs.click();
    await expectTenLines('stacked');
    // What was stacked stays visible.
    await expect(page.locator('.jp-NotebookPanel')).toBeVisible();
    await expect(
      page.getByRole('tabpanel', { name: 'Task Stream: analysis.ipynb' })
    ).toBeVisible();
  });
});
