/**
 * The history tab, with real metrics of the server and a simulated stream for long histories.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';
import { readFile, writeFile } from 'fs/promises';

import { layoutSaved, runFromPalette } from './helpers';
import { playScene } from './mockStream';

const tab = (page: IJupyterLabPageFixture) =>
  page.locator('#jupyter-gpudask-history');

/** Count the open streams. */
function countStreams(page: IJupyterLabPageFixture): () => number {
  let open = 0;
  page.on('websocket', socket => {
    if (socket.url().includes('gpudask/api/stream')) {
      open += 1;
      socket.on('close', () => (open -= 1));
    }
  });
  return () => open;
}

test('the history opens from the panel, is restored after a reload, and disconnects while it is hidden', async ({
  page
}) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.getByRole('button', { name: 'last minutes' }).click();
  const gpus = tab(page).getByRole('region', { name: 'GPUs', exact: true });
  await expect(gpus.getByRole('row').nth(2)).toHaveText(
    'GPU 1NVIDIA H20037 %1.0 GiB2.5 GiB/s2.5 GiB/s'
  );
  const saved = layoutSaved(
    page,
    layout =>
      layout.includes('jupyter-gpudask-history') &&
      !layout.includes('"current":"jupyter-gpudask-panel"')
  );
  await page.sidebar.close('left');

  await saved;
  const streams = countStreams(page);
  await page.reload({ waitForIsReady: false });
  await expect(gpus.first()).toBeVisible();
  await expect.poll(streams).toBe(1);
  await page.menu.clickMenuItem('File>New Launcher');
  await expect.poll(streams).toBe(0);
});

test.describe('with 15 minutes of metrics', () => {
  test.use({ autoGoto: false });

  test.beforeEach(async ({ page }) => {
    await playScene(page, { gpus: 2, workers: 2 }, 1000);
    await page.goto();
    await runFromPalette(page, 'Show GPU History');
    await expect(tab(page).getByRole('img')).toHaveCount(13);
  });

  test('charts are hidden and shown by a list in the toolbar, also after a reload', async ({
    page
  }, testInfo) => {
    const chart = (name: string): Locator =>
      tab(page).getByRole('img', { name, exact: true });
    const button = tab(page).getByText('Charts', { exact: true });
    await button.click();
    const list = tab(page).getByRole('group', { name: 'GPUs' });
    await expect(list.getByRole('checkbox', { checked: true })).toHaveCount(4);
    await page.screenshot({ path: testInfo.outputPath('charts.png') });
    await list.getByLabel('NVLink').click();
    await expect(chart('GPUs: NVLink')).toHaveCount(0);
    await expect(tab(page).getByRole('img')).toHaveCount(12);
    for (const name of ['CPU', 'Memory', 'Disk', 'Network']) {
      await tab(page)
        .getByRole('group', { name: 'Machine' })
        .getByLabel(name)
        .click();
    }
    await expect(tab(page).getByRole('img')).toHaveCount(8);
    await page.keyboard.press('Escape');
    await expect(list).toBeHidden();
    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      tab(page).getByRole('button', { name: 'Save CSV' }).click()
    ]);
    const header = (await readFile(await saved.path(), 'utf-8')).split('\n')[0];
    expect(header).toContain('PCIe');
    expect(header).not.toContain('NVLink');

    await page.reload({ waitForIsReady: false });
    await expect(tab(page).getByRole('img')).toHaveCount(8);
    await button.click();
    await list.getByLabel('NVLink').click();
    await expect(chart('GPUs: NVLink')).toBeVisible();
  });

  test('all charts share a cursor, and a range can be zoomed and saved', async ({
    page
  }, testInfo) => {
    await tab(page).getByRole('button', { name: 'Pause' }).click();
    const row = tab(page).getByRole('row', { name: 'GPU 0' }).first();
    const newest = await row.textContent();
    const chart = tab(page).locator('.u-over').first();
    const { width, height } = (await chart.boundingBox())!;
    await chart.hover({ position: { x: width / 3, y: height / 2 } });
    expect(await row.textContent()).not.toBe(newest);
    const cursors = tab(page).locator('.u-cursor-x');
    const places = await cursors.evaluateAll(nodes =>
      nodes.map(node => (node as HTMLElement).style.transform)
    );
    expect(new Set(places).size).toBe(1);

    const reset = tab(page).getByRole('button', { name: 'Reset zoom' });
    await expect(reset).toBeDisabled();
    const title = tab(page).getByRole('heading', { name: 'GPU history: ' });
    const whole = await title.textContent();
    await page.mouse.down();
    await chart.hover({ position: { x: (2 * width) / 3, y: height / 2 } });
    await page.mouse.up();
    await expect(reset).toBeEnabled();
    await expect(title).not.toHaveText(whole!);
    // The tables show the end of the range.
    await page.mouse.move(0, 0);
    await expect(tab(page).getByText('Now', { exact: true })).toBeHidden();

    const download = page.waitForEvent('download');
    await tab(page).getByRole('button', { name: 'Save CSV' }).click();
    const text = await readFile(await (await download).path(), 'utf8');
    const lines = text.trim().split('\r\n');
    expect(lines[0]).toContain('"GPU 1 (train.ipynb): Tasks per second [1/s]"');
    // A third of 15 minutes, a line a second.
    expect(Math.abs(lines.length - 300)).toBeLessThan(10);

    const picture = page.waitForEvent('download');
    await tab(page).getByRole('button', { name: 'Save PNG' }).click();
    const png = await readFile(await (await picture).path());
    expect(png.subarray(1, 4).toString()).toBe('PNG');
    expect(png.length).toBeGreaterThan(20000);
    // As wide as the charts in the tab; the header of the file has the width.
    const shown = (await tab(page)
      .locator('.jp-GpuDask-charts')
      .first()
      .boundingBox())!;
    expect(png.readUInt32BE(16)).toBeGreaterThan(shown.width);
    await writeFile(testInfo.outputPath('history.png'), png);
    await reset.click();
    await expect(reset).toBeDisabled();
  });

  test('charts are zoomed and moved by keyboard, which keeps its place', async ({
    page
  }, testInfo) => {
    await tab(page).getByRole('button', { name: 'Pause' }).click();
    const title = tab(page).getByRole('heading', { name: 'GPU history: ' });
    const whole = await title.textContent();
    const reset = tab(page).getByRole('button', { name: 'Reset zoom' });
    const chart = tab(page).getByRole('img', { name: 'GPUs: Busy' });
    await expect(chart).toHaveAccessibleDescription(/^Plus and minus zoom/);
    await chart.focus();
    await page.keyboard.press('+');
    await expect(reset).toBeEnabled();
    const zoomed = await title.textContent();
    expect(zoomed).not.toBe(whole);
    await page.keyboard.press('ArrowLeft');
    await expect(title).not.toHaveText(zoomed!);
    await page.screenshot({ path: testInfo.outputPath('zoomed.png') });
    await page.keyboard.press('ArrowRight');
    await expect(title).toHaveText(zoomed!);
    await page.keyboard.press('Escape');
    await expect(title).toHaveText(whole!);
    await expect(chart).toBeFocused();

    // The button keeps the focus when there is nothing to reset.
    await page.keyboard.press('+');
    await reset.focus();
    await page.keyboard.press('Enter');
    await expect(title).toHaveText(whole!);
    await expect(reset).toBeDisabled();
    await expect(reset).toBeFocused();
    const line = tab(page).getByRole('checkbox', { name: 'GPU 0' }).first();
    await line.focus();
    await expect(line).toHaveCSS('outline-style', 'solid');
    await page.screenshot({ path: testInfo.outputPath('checkbox.png') });
  });

  test('a narrow tab has two charts in a row, and a tall tab higher charts', async ({
    page
  }, testInfo) => {
    await page.sidebar.close('left');
    const box = (number: number) =>
      tab(page)
        .getByRole('img')
        .nth(number)
        .boundingBox()
        .then(each => each!);
    const places = async () => [await box(0), await box(1), await box(2)];
    await page.setViewportSize({ width: 460, height: 700 });
    await expect
      .poll(async () => {
        const [first, second, third] = await places();
        return second.y === first.y && third.y > first.y;
      })
      .toBe(true);
    await page.screenshot({ path: testInfo.outputPath('narrow.png') });
    const low = (await box(0)).height;
    await page.setViewportSize({ width: 1100, height: 1400 });
    await expect.poll(async () => (await box(0)).height).toBeGreaterThan(low);
    await expect.poll(async () => (await box(3)).y - (await box(0)).y).toBe(0);
    await page.screenshot({ path: testInfo.outputPath('tall.png') });
  });

  test('its charts follow the theme', async ({ page }) => {
    const background = () =>
      tab(page)
        .locator('canvas')
        .first()
        .evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
    await page.theme.setLightTheme();
    await tab(page).getByRole('button', { name: 'Pause' }).click();
    const light = await background();
    await page.theme.setDarkTheme();
    await expect.poll(background).not.toBe(light);
  });
});
