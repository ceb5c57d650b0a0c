/**
 * The life of a cluster in JupyterLab, with a real server, kernel and cluster; only the GPUs are simulated.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';
import { writeFile } from 'fs/promises';

import {
  chooseAction,
  clusterCard,
  clusterOnServer,
  gpuDaskPanel,
  layoutSaved,
  logsTab,
  openAnalysis,
  submitTasks,
  setCode
} from './helpers';

test.beforeEach(async ({ page, request, tmpPath }) => {
  test.slow();
  await openAnalysis(page, request, tmpPath);
});

/** Put code into the only cell of the notebook, and run it. */
async function run(page: IJupyterLabPageFixture, code: string): Promise<void> {
  await setCode(page, 0, code);
  await page.notebook.runCell(0);
}

/** The cluster in the list of what is running. */
async function runningItem(page: IJupyterLabPageFixture): Promise<Locator> {
  await page.sidebar.openTab('jp-running-sessions');
  const item = page
    .locator('.jp-RunningSessions-section')
    .filter({ hasText: 'CPU cluster' })
    .locator('.jp-RunningSessions-item');
  await item.hover();
  return item;
}

test('a cluster on the CPU is started with options, used, looked at and stopped', async ({
  page
}, testInfo) => {
  const panel = gpuDaskPanel(page);
  const card = clusterCard(page);
  const dialog = page.getByRole('dialog');

  await test.step('the dialog marks each refused option, and keeps its height', async () => {
    await panel
      .getByRole('button', { name: 'Options…: analysis.ipynb' })
      .click();
    await dialog.getByLabel('Runs on').selectOption('cpu');
    await dialog.getByText('More options').click();
    await dialog.getByLabel('Threads').fill('many');
    await dialog.getByLabel('Host memory').fill('lots');
    await expect(dialog.locator('code')).toHaveText(
      '%gpudask start --engine cpu --memory-limit lots --threads many'
    );
    const form = dialog.locator('.jp-GpuDask-form');
    const before = await form.boundingBox();
    await dialog.getByRole('button', { name: 'Start' }).click();
    await expect(dialog.getByRole('alert')).toContainText([
      "Host memory 'lots' is not allowed",
      "Threads 'many' is not allowed: give a whole number from 1 to 256"
    ]);
    expect((await form.boundingBox())?.height).toBe(before?.height);
    await expect(dialog.getByLabel('Threads')).toHaveAttribute(
      'aria-invalid',
      'true'
    );
  });

  await test.step('it starts with corrected options', async () => {
    await dialog.getByLabel('Threads').fill('1');
    await dialog.getByLabel('Host memory').fill('');
    await dialog.getByLabel('Workers').fill('2');
    await dialog.getByRole('button', { name: 'Start' }).click();
    await expect(dialog).toBeHidden();
    await expect(card.getByText('ready')).toBeVisible();
    await expect(
      card.getByRole('list', { name: 'Workers' }).getByRole('listitem')
    ).toHaveCount(2);
    await expect(
      page
        .locator('.jp-GpuDask-toolbarButton')
        .getByRole('button', { name: 'CPU cluster' })
    ).toBeVisible();
  });

  await test.step('a shortcut moves the focus to the panel and back to the cell', async () => {
    // Galata's function does nothing to a cell in edit mode that has lost the focus to the dialog.
    const editor = page.locator('.jp-Notebook .cm-content');
    await editor.focus();
    await expect(editor).toBeFocused();
    await page.keyboard.press('Control+Alt+g');
    await expect(panel.locator(':focus')).toHaveCount(1);
    await page.keyboard.press('Tab');
    await expect(panel.locator(':focus')).toHaveCount(1);
    await page.keyboard.press('Control+Alt+g');
    await expect(panel.locator(':focus')).toHaveCount(0);
    await expect(page.locator('.jp-Notebook :focus')).toHaveCount(1);
    await expect(panel).toBeVisible();
  });

  await test.step('the code for the client is inserted into the notebook, and runs', async () => {
    const cells = page.locator('.jp-NotebookPanel .jp-Cell');
    await setCode(page, 0, '');
    await chooseAction(card, 'Insert Dask Client Code');
    await expect.poll(() => page.notebook.getCellCount()).toBe(2);
    await expect(cells.nth(1).locator('.cm-content')).toHaveText(
      /^%load_ext jupyter_gpudask\s*cluster = %gpudask start\s*client = cluster.client$/
    );
    await page.notebook.runCell(1);
    await setCode(page, 0, 'len(client.scheduler_info()["workers"])');
    await page.notebook.runCell(0);
    await expect(cells.first().locator('.jp-OutputArea-output')).toHaveText(
      '2'
    );
  });

  await test.step('logs are followed, wrapped, filtered by level, searched, copied and saved', async () => {
    // A task on each worker prints, and logs a warning when the file is there.
    const file = testInfo.outputPath('go');
    const long = `a warning ${'that is long '.repeat(60)}`;
    const work = `def work(_):
    import logging, os, time
    for number in range(150):
        print("line", number)
    while not os.path.exists("${file}"):
        time.sleep(0.1)
    logging.getLogger("distributed.worker").warning("${long}")`;
    await run(page, `${work}\ntasks = client.map(work, range(2), pure=False)`);
    await page.menu.clickMenuItem('Kernel>GPU Dask Cluster>Show Cluster Logs');
    const tab = logsTab(page);
    await expect(tab).toContainText('Scheduler');
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
    const { kernel_id: kernelId } = await clusterOnServer(page.request);
    await expect
      .poll(async () =>
        (
          await page.request.get(`/gpudask/api/clusters/${kernelId}/logs`)
        ).text()
      )
      .toContain(long.trim());
    await expect(worker).not.toContainText('a warning');
    expect(await fromEnd()).toBeGreaterThan(100);
    await tab.getByLabel('Follow').check();
    await expect(worker).toContainText('a warning');
    await expect.poll(fromEnd).toBeLessThan(2);

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
    await page
      .context()
      .grantPermissions(['clipboard-read', 'clipboard-write']);
    await tab.getByLabel('Worker', { exact: true }).selectOption('Worker 0');
    await expect(tab.locator('pre')).toHaveCount(1);
    await tab.getByRole('button', { name: 'Copy' }).click();
    const copied = (): Promise<string> =>
      page.evaluate(() => navigator.clipboard.readText());
    await expect.poll(copied).toContain('# Worker 0\n');
    expect(await copied()).toContain(long.trim());
    expect(await copied()).not.toContain('line 149');
    await tab.getByLabel('Level').selectOption('Errors');
    await expect(tab.getByText(/^0 of \d+ entries$/)).toBeVisible();
    await expect(worker).toBeHidden();
    const saved = page.waitForEvent('download');
    await tab.getByRole('button', { name: 'Download' }).click();
    expect((await saved).suggestedFilename()).toBe(
      'Logs of analysis.ipynb.txt'
    );
    await page.activity.closePanel('Logs: analysis.ipynb');
  });

  await test.step('it shows its results, and asks before they are lost', async () => {
    await run(
      page,
      'kept = client.map(lambda _: bytes(50 * 2**20), range(2), pure=False)'
    );
    await expect(card).toContainText('holds 100 MiB of results');
    const expectConfirmation = async (): Promise<void> => {
      await expect(dialog).toContainText('Its workers hold 100 MiB of results');
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await expect(dialog).toBeHidden();
    };
    await page.keyboard.press('Control+Alt+Shift+x');
    await expectConfirmation();
    await chooseAction(card, 'Restart Cluster');
    await expectConfirmation();
    const item = await runningItem(page);
    await item.getByTitle('Stop Cluster').click();
    await expectConfirmation();
    await item.getByText('analysis.ipynb').click();
    await expect(card).toBeVisible();

    await chooseAction(card, 'Release Results…');
    await expect(dialog).toContainText('Its workers hold 100 MiB of results (');
    await dialog.getByRole('button', { name: 'Release' }).click();
    await expect(card).not.toContainText('of results');
    await run(page, 'kept[0].result()');
    await expect(
      page.locator('.jp-OutputArea-output').filter({
        hasText: 'Run the cells again that made the results.'
      })
    ).toBeVisible();
  });

  await test.step('it is scaled, and then follows the work', async () => {
    const workers = card
      .getByRole('list', { name: 'Workers' })
      .getByRole('listitem');
    await chooseAction(card, 'Scale Cluster');
    const number = dialog.getByRole('spinbutton', { name: 'Workers' });
    await expect(number).toBeFocused();
    await expect(number).toHaveValue('2');
    await number.fill('1');
    await page.keyboard.press('Enter');
    await expect(workers).toHaveCount(1);
    await chooseAction(card, 'Scale Cluster');
    await dialog.getByLabel('Adaptive').check();
    await dialog.getByRole('spinbutton', { name: 'Most workers' }).fill('2');
    await page.keyboard.press('Enter');
    await expect(card).toContainText('1 to 2 workers, as needed');
  });

  await test.step('it is stopped after a warning about its tasks', async () => {
    await submitTasks(page, 9);
    await expect(card.getByText(/0\sof\s9\stasks/)).toBeVisible();
    await card.getByRole('button', { name: 'Stop' }).click();
    await expect(dialog).toContainText('0 of 9 tasks are done.');
    await dialog.getByRole('button', { name: 'Stop' }).click();
    await expect(card).toBeHidden();
    await expect(
      panel.getByText('analysis.ipynb has no cluster.')
    ).toBeVisible();
    await expect(
      page
        .locator('.jp-GpuDask-toolbarButton')
        .getByRole('button', { name: 'CPU cluster' })
    ).toBeHidden();
  });
});

test('a cluster on both GPUs is started from the toolbar and shows its dashboard', async ({
  page
}) => {
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  // A page that still connects to its kernel takes the focus from a menu.
  await expect(async () => {
    await toolbar.getByRole('button').click({ timeout: 10000 });
    await page
      .getByRole('menuitem', { name: 'Start Cluster', exact: true })
      .click({ timeout: 10000 });
  }).toPass();
  await expect(toolbar.getByRole('button', { name: '2 × H200' })).toBeVisible();

  const panel = gpuDaskPanel(page);
  await expect(
    panel.getByRole('button', { name: 'GPU 1: analysis.ipynb' })
  ).toBeVisible();
  await expect(page.locator('.jp-GpuDask-statusItem')).toHaveText(
    '2 GPUs 37 % busy, 2.0 of 280 GiB'
  );

  await page.sidebar.openTab('filebrowser');
  await expect(panel).toBeHidden();
  await page.locator('.jp-GpuDask-statusItem').click();
  await expect(panel).toBeVisible();

  // With the dashboard and the plot.
  const saved = layoutSaved(
    page,
    layout =>
      new Set(layout.match(/jupyter-gpudask-dashboards:[^"]*/g)).size > 1
  );
  await chooseAction(clusterCard(page), 'Open Dask Dashboard');
  const dashboard = page.frameLocator('iframe[title="Dask: analysis.ipynb"]');
  await expect(dashboard.locator('canvas').first()).toBeVisible();

  await panel.getByRole('button', { name: 'Choose a plot' }).click();
  await page.getByPlaceholder('Search the plots').fill('task str');
  await page.keyboard.press('Enter');
  const plot = page.frameLocator('iframe[title="Task Stream: analysis.ipynb"]');
  await expect(plot.locator('canvas').first()).toBeVisible();
  await saved;
  await page.reload({ waitForIsReady: false });
  await expect(plot.locator('canvas').first()).toBeVisible();
  await expect(
    page.getByRole('tab', { name: 'Dask: analysis.ipynb' })
  ).toBeVisible();

  await panel.getByRole('button', { name: 'Stop' }).click();
  await expect(panel.getByText('has no cluster.')).toBeVisible();
  // What is left of the plot is a picture of the past, and said to be.
  const notice = page.getByText('The cluster of analysis.ipynb is closed.');
  await expect(notice.filter({ visible: true })).toBeVisible();

  // The notebook has another kernel now; the tabs show its cluster.
  await page.evaluate(async () => {
    const widgets = [...window.jupyterapp.shell.widgets('main')];
    const notebook = widgets.find(
      ({ title }) => title.label === 'analysis.ipynb'
    ) as unknown as {
      sessionContext: { changeKernel(kernel: object): Promise<unknown> };
    };
    await notebook.sessionContext.changeKernel({ name: 'python3' });
  });
  await panel.getByRole('button', { name: 'Start: analysis.ipynb' }).click();
  await expect(clusterCard(page).getByText('ready')).toBeVisible();
  await expect(notice.filter({ visible: true })).toBeHidden();
  await expect(plot.locator('canvas').first()).toBeVisible();
  await page.getByRole('tab', { name: 'Dask: analysis.ipynb' }).click();
  await expect(dashboard.locator('canvas').first()).toBeVisible();

  // The plots of the setting are opened beside the notebook, and those that are open are kept.
  await panel.getByRole('button', { name: 'Plots: analysis.ipynb' }).click();
  await expect(
    page.getByRole('tab', { name: 'GPU Memory: analysis.ipynb' })
  ).toBeVisible();
  await expect(
    page.getByRole('tab', { name: 'Task Stream: analysis.ipynb' })
  ).toHaveCount(1);
  const progress = page.locator('iframe[title="Progress: analysis.ipynb"]');
  await expect(progress).toBeVisible();
  await expect(page.locator('.jp-NotebookPanel')).toBeVisible();
});
