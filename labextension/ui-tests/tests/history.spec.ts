/**
 * The history tab, with real metrics of the server and a simulated stream for long histories.
 */
import { expect, IJupyterLabPageFixture, test } from '@jupyterlab/galata';
import { Locator } from '@playwright/test';
import { readFile } from 'fs/promises';

import { layoutSaved, runFromPalette } from './helpers';
import { playScene } from './mockStream';

const tab = (page: IJupyterLabPageFixture): Locator =>
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

test.use({ locale: 'de-DE' });

test('the history opens from the panel, is restored after a reload, and disconnects while it is hidden', async ({
  page
}) => {
  await page.sidebar.openTab('jupyter-gpudask-panel');
  await page.getByRole('button', { name: 'last minutes' }).click();
  const gpus = tab(page).getByRole('region', { name: 'GPUs', exact: true });
  await expect(gpus.getByRole('row').nth(2)).toHaveText(
    'GPU 1NVIDIA H20037 %1.0 GiB2.5 GiB/s2.5 GiB/s'
  );
  // English dates in an English JupyterLab, whatever the language of the browser.
  await expect(
    tab(page).getByRole('heading', { name: 'GPU history: ' })
  ).toHaveText(/^GPU history: [A-Z][a-z]{2} \d{1,2}, \d{4}, \d\d:\d\d:\d\d/);
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

  test('charts are zoomed by mouse and keyboard, saved, fitted to the tab, and chosen', async ({
    page
  }) => {
    await playScene(page, { gpus: 2, workers: 2 }, 1000);
    await page.goto();
    await runFromPalette(page, 'Show GPU History');
    const charts = tab(page).getByRole('img');
    await expect(charts).toHaveCount(12);
    const button = (name: string): Locator =>
      tab(page).getByRole('button', { name });
    const reset = button('Reset zoom');
    const title = tab(page).getByRole('heading', { name: 'GPU history: ' });
    // The whole range is there.
    await expect(tab(page).getByText('Now', { exact: true })).toBeVisible();
    const whole = (await title.textContent())!;
    /** The file that a button saves. */
    const saved = async (name: string): Promise<Buffer> => {
      const download = page.waitForEvent('download');
      await button(name).click();
      return readFile(await (await download).path());
    };

    await test.step('all charts share a cursor, and a range can be zoomed and saved', async () => {
      const row = tab(page).getByRole('row', { name: 'GPU 0' }).first();
      const newest = await row.textContent();
      const chart = tab(page).locator('.u-over').first();
      const { width, height } = (await chart.boundingBox())!;
      await chart.hover({ position: { x: width / 3, y: height / 2 } });
      await expect(row).not.toHaveText(newest!);
      const places = (): Promise<number> =>
        tab(page)
          .locator('.jp-GpuDask-charts')
          .first()
          .locator('.u-cursor-x')
          .evaluateAll(
            nodes =>
              new Set(nodes.map(node => (node as HTMLElement).style.transform))
                .size
          );
      await expect.poll(places).toBe(1);

      await expect(reset).toBeDisabled();
      await page.mouse.down();
      await chart.hover({ position: { x: (2 * width) / 3, y: height / 2 } });
      await page.mouse.up();
      await expect(reset).toBeEnabled();
      await expect(title).not.toHaveText(whole);
      // The tables show the end of the range.
      await page.mouse.move(0, 0);
      await expect(tab(page).getByText('Now', { exact: true })).toBeHidden();

      const lines = (await saved('Save CSV')).toString().trim().split('\r\n');
      expect(lines[0]).toContain('"GPU 1 (train): Tasks per second [1/s]"');
      // A third of 15 minutes, a line a second.
      expect(Math.abs(lines.length - 300)).toBeLessThan(10);
      const png = await saved('Save PNG');
      expect(png.subarray(1, 4).toString()).toBe('PNG');
      expect(png.length).toBeGreaterThan(20000);
      // As wide as the charts in the tab; the header of the file has the width.
      const shown = (await tab(page)
        .locator('.jp-GpuDask-charts')
        .first()
        .boundingBox())!;
      expect(png.readUInt32BE(16)).toBeGreaterThan(shown.width);
      await reset.click();
      await expect(reset).toBeDisabled();
    });

    await test.step('the keyboard zooms and moves, and keeps its place', async () => {
      const chart = tab(page).getByRole('slider', { name: 'Zoom' });
      await expect(chart).toHaveAccessibleDescription(/^Plus and minus zoom/);
      await chart.focus();
      await page.keyboard.press('+');
      await expect(reset).toBeEnabled();
      const zoomed = (await title.textContent())!;
      expect(zoomed).not.toBe(whole);
      await page.keyboard.press('ArrowLeft');
      await expect(title).not.toHaveText(zoomed);
      await page.keyboard.press('ArrowRight');
      await expect(title).toHaveText(zoomed);
      await page.keyboard.press('Escape');
      await expect(reset).toBeDisabled();
      await expect(title).not.toHaveText(zoomed);
      await expect(chart).toBeFocused();

      // The button keeps the focus when there is nothing to reset.
      await page.keyboard.press('+');
      await reset.focus();
      await page.keyboard.press('Enter');
      await expect(reset).toBeDisabled();
      await expect(reset).toBeFocused();
      const line = tab(page).getByRole('checkbox', { name: 'GPU 0' }).first();
      await line.focus();
      await expect(line).toHaveCSS('outline-style', 'solid');
    });

    await test.step('charts are hidden and shown by a list in the toolbar, also after a reload', async () => {
      const open = tab(page).getByText('Charts', { exact: true });
      await open.click();
      const list = tab(page).getByRole('group', { name: 'GPUs' });
      await expect(list.getByRole('checkbox', { checked: true })).toHaveCount(
        4
      );
      await list.getByLabel('NVLink').click();
      await expect(charts).toHaveCount(11);
      await page.keyboard.press('Escape');
      await expect(list).toBeHidden();
      const [header] = (await saved('Save CSV')).toString().split('\n');
      expect(header).toContain('PCIe');
      expect(header).not.toContain('NVLink');

      await page.reload({ waitForIsReady: false });
      await expect(charts).toHaveCount(11);
      await open.click();
      await list.getByLabel('NVLink').click();
      await expect(charts).toHaveCount(12);
      await page.keyboard.press('Escape');
    });

    await test.step('the charts follow the theme', async () => {
      const picture = (): Promise<string> =>
        tab(page)
          .locator('canvas')
          .first()
          .evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
      const light = await picture();
      await page.theme.setDarkTheme();
      await expect.poll(picture).not.toBe(light);
    });

    await test.step('a narrow tab has two charts in a row, and a tall tab higher charts', async () => {
      await page.sidebar.close('left');
      const box = async (
        number: number
      ): Promise<{ x: number; y: number; height: number }> =>
        (await charts.nth(number).boundingBox())!;
      await page.setViewportSize({ width: 460, height: 700 });
      await expect
        .poll(async () => {
          const [first, second, third] = [
            await box(0),
            await box(1),
            await box(2)
          ];
          return second.y === first.y && third.y > first.y;
        })
        .toBe(true);
      const low = (await box(0)).height;
      await page.setViewportSize({ width: 1100, height: 1400 });
      await expect.poll(async () => (await box(0)).height).toBeGreaterThan(low);
      await expect
        .poll(async () => (await box(3)).y - (await box(0)).y)
        .toBe(0);
    });
  });
});
