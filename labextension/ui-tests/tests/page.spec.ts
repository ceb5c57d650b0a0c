/**
 * Menus, shortcuts, the launcher and the panel of running kernels.
 */
import { expect, test } from '@jupyterlab/galata';

import {
  chooseAction,
  clusterCard,
  expectBothSections,
  gpuDaskPanel,
  logsTab,
  openAnalysis,
  startOnCpu
} from './helpers';
import { IScene, playScene } from './mockStream';

test('the launcher, the menu and a shortcut open the panel', async ({
  page
}, testInfo) => {
  const card = page.locator('.jp-LauncherCard').filter({ hasText: 'GPU Dask' });
  await card.scrollIntoViewIfNeeded();
  await page.screenshot({ path: testInfo.outputPath('launcher.png') });
  await card.click();
  await expectBothSections(page);

  await page.sidebar.openTab('filebrowser');
  await expect(gpuDaskPanel(page)).toBeHidden();
  await page.menu.clickMenuItem('View>Show GPU Dask Panel');
  await expect(gpuDaskPanel(page)).toBeVisible();

  await page.sidebar.openTab('filebrowser');
  await page.keyboard.press('Control+Alt+g');
  await expect(gpuDaskPanel(page)).toBeVisible();
});

test.describe('with a cluster', () => {
  test.beforeEach(async ({ page, request, tmpPath }) => {
    await openAnalysis(page, request, tmpPath);
    await startOnCpu(page);
  });

  test('the code for the client is inserted below the active cell, and runs', async ({
    page
  }) => {
    await page.notebook.setCell(0, 'code', 'first = 1');
    await page.notebook.save();
    await page.reload({ waitForIsReady: false });
    await expect(clusterCard(page)).toBeVisible();
    await chooseAction(clusterCard(page), 'Insert Dask Client Code');
    await expect.poll(() => page.notebook.getCellCount()).toBe(2);
    expect(await page.notebook.getCellTextInput(1)).toContain(
      'client = cluster.client'
    );
    await page.notebook.addCell(
      'code',
      'len(client.scheduler_info()["workers"])'
    );
    await page.notebook.runCell(0);
    await page.notebook.runCell(2);
    await expect(
      page.locator('.jp-Notebook .jp-OutputArea-output').last()
    ).toContainText('2');
  });

  test('it is listed in the panel of running kernels, and stopped there', async ({
    page
  }, testInfo) => {
    await page.sidebar.openTab('jp-running-sessions');
    const item = page
      .locator('.jp-RunningSessions-section')
      .filter({ hasText: 'CPU stand-in' })
      .locator('.jp-RunningSessions-item');
    await expect(item).toContainText('analysis.ipynb');
    await page.screenshot({ path: testInfo.outputPath('running.png') });
    await item.getByText('analysis.ipynb').click();
    await expect(clusterCard(page)).toBeVisible();

    await page.sidebar.openTab('jp-running-sessions');
    await item.hover();
    await item.getByTitle('Stop Cluster').click();
    await expect(item).toBeHidden();
  });

  test('it is in the Kernel menu, and stopped by a shortcut', async ({
    page
  }, testInfo) => {
    await page.notebook.setCell(
      0,
      'code',
      '%load_ext jupyter_gpudask\nstarted = %gpudask start\n' +
        'started.client.run(print, "a line of a task")'
    );
    await page.notebook.runCell(0);
    await page.menu.openLocator('Kernel>GPU Dask Cluster');
    await page.screenshot({ path: testInfo.outputPath('menu.png') });
    await page.menu.clickMenuItem('Kernel>GPU Dask Cluster>Show Cluster Logs');
    const logs = logsTab(page);
    await expect(logs).toContainText('Scheduler');
    await expect(logs).toContainText('a line of a task');
    await page.screenshot({ path: testInfo.outputPath('logs.png') });
    await logs
      .getByRole('combobox', { name: 'Worker' })
      .selectOption('Worker 1');
    await expect(logs.locator('pre')).toHaveCount(1);
    await logs.getByLabel('Search').fill('this is in no line');
    await expect(logs.locator('pre')).toHaveText('No line matches.');
    await logs.getByLabel('Search').fill('');
    const saved = page.waitForEvent('download');
    await logs.getByRole('button', { name: 'Download' }).click();
    expect((await saved).suggestedFilename()).toBe(
      'Logs of analysis.ipynb.txt'
    );

    await page.activity.activateTab('analysis.ipynb');
    await page.keyboard.press('Control+Alt+Shift+x');
    await expect(clusterCard(page)).toBeHidden();
  });

  test('the size of its results is shown, and a shortcut asks before they are lost', async ({
    page
  }, testInfo) => {
    await page.notebook.setCell(
      0,
      'code',
      '%load_ext jupyter_gpudask\nstarted = %gpudask start\n' +
        'kept = started.client.map(lambda _: bytes(50 * 2**20), range(2), pure=False)'
    );
    await page.notebook.runCell(0);
    const card = clusterCard(page);
    await expect(card).toContainText('holds 100 MiB of results');
    await page.screenshot({ path: testInfo.outputPath('held.png') });

    const dialog = page.getByRole('dialog');
    const expectConfirmation = async (): Promise<void> => {
      await expect(dialog).toContainText('Its workers hold 100 MiB of results');
      await page.screenshot({ path: testInfo.outputPath('asked.png') });
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await expect(dialog).toBeHidden();
    };
    await page.keyboard.press('Control+Alt+Shift+x');
    await expectConfirmation();
    await chooseAction(card, 'Restart Cluster');
    await expectConfirmation();
    await page.sidebar.openTab('jp-running-sessions');
    const item = page
      .locator('.jp-RunningSessions-section')
      .filter({ hasText: 'CPU stand-in' })
      .locator('.jp-RunningSessions-item');
    await item.hover();
    await item.getByTitle('Stop Cluster').click();
    await expectConfirmation();
    await expect(item).toBeVisible();

    await page.sidebar.openTab('jupyter-gpudask-panel');
    await chooseAction(card, 'Release Results…');
    await expect(dialog).toContainText('Its workers hold 100 MiB of results (');
    await page.screenshot({ path: testInfo.outputPath('release.png') });
    await dialog.getByRole('button', { name: 'Release' }).click();
    await expect(card).not.toContainText('of results');
    await page.notebook.setCell(0, 'code', 'kept[0].result()');
    await page.notebook.runCell(0);
    await expect(page.locator('.jp-OutputArea-output').last()).toContainText(
      'Run the cells again that made the results.'
    );
    await page.screenshot({ path: testInfo.outputPath('released.png') });
  });

  test('the shortcut moves the focus to the panel and back to the cell', async ({
    page
  }, testInfo) => {
    await page.sidebar.openTab('filebrowser');
    await page.notebook.setCell(0, 'code', 'first = 1');
    await page.notebook.enterCellEditingMode(0);
    const editor = page.locator('.jp-Notebook .cm-content');
    await expect(editor).toBeFocused();
    await page.keyboard.press('Control+Alt+g');
    await expect(gpuDaskPanel(page).locator(':focus')).toHaveCount(1);
    await page.screenshot({ path: testInfo.outputPath('focus.png') });
    await page.keyboard.press('Tab');
    await expect(gpuDaskPanel(page).locator(':focus')).toHaveCount(1);
    await page.keyboard.press('Control+Alt+g');
    await expect(gpuDaskPanel(page).locator(':focus')).toHaveCount(0);
    await expect(page.locator('.jp-Notebook :focus')).toHaveCount(1);
    await expect(gpuDaskPanel(page)).toBeVisible();
  });
});

test('a narrow panel shows all buttons of a cluster', async ({
  page
}, testInfo) => {
  await playScene(page, { gpus: 2, workers: 2 });
  await page.reload();
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.sidebar.setWidth(220, 'left');
  const card = clusterCard(page, 'train.ipynb');
  for (const theme of ['JupyterLab Light', 'JupyterLab Dark']) {
    await page.theme.setTheme(theme);
    await expect(card.getByRole('button')).not.toHaveCount(0);
    const { x, width } = (await card.boundingBox()) ?? { x: 0, width: 0 };
    for (const button of await card.getByRole('button').all()) {
      const box = await button.boundingBox();
      expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(x + width);
    }
    await page.screenshot({ path: testInfo.outputPath(`${theme}.png`) });
  }
});

test('without a connection the toolbar button and the status bar show the last state in gray', async ({
  page,
  request,
  tmpPath
}, testInfo) => {
  const scene: IScene = { gpus: 2, workers: 2 };
  await playScene(page, scene, 1000);
  await page.reload();
  await openAnalysis(page, request, tmpPath);
  await expect(async () => {
    const sessions = await (await request.get('/api/sessions')).json();
    const isHere = ({ path }: { path: string }) => path.startsWith(tmpPath);
    const { id } = sessions.find(isHere).kernel;
    scene.cluster = { kernel_id: id, name: 'analysis.ipynb' };
  }).toPass();
  const toolbar = page.locator('.jp-GpuDask-toolbarButton');
  await expect(toolbar.getByRole('button', { name: '2 × H200' })).toBeVisible();
  scene.isLost = true;
  await expect(
    gpuDaskPanel(page).getByText('The connection to the server is lost.')
  ).toBeVisible();
  await expect(toolbar.getByTitle(/connection .* is lost/)).toBeVisible();
  const item = page.locator('.jp-GpuDask-statusItem');
  for (const theme of ['JupyterLab Light', 'JupyterLab Dark']) {
    await page.theme.setTheme(theme);
    const gray = await page.evaluate(() => {
      const probe = document.createElement('p');
      probe.style.color = 'var(--jp-ui-font-color2)';
      document.body.append(probe);
      const { color } = getComputedStyle(probe);
      probe.remove();
      return color;
    });
    await expect(item).toHaveCSS('color', gray);
    const label = toolbar.locator('.jp-ToolbarButtonComponent-label');
    await expect(label).toHaveCSS('color', gray);
    await expect(toolbar.locator('svg').first()).toHaveCSS('opacity', '0.5');
    await page.screenshot({ path: testInfo.outputPath(`${theme}.png`) });
  }
});
