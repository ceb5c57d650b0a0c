/**
 * A server with a base URL that is stopped and started again.
 */
import { expect, test } from '@playwright/test';

import { JupyterServer } from './jupyterServer';
import { gpuDaskPanel, runFromPalette } from './helpers';

test.describe.configure({ timeout: 120000 });

const server = new JupyterServer('/user/ada/');

test.afterEach(async () => server.stop());

test('with a base URL, the panel reports a lost server, and reconnects', async ({
  page
}) => {
  await server.start();
  await server.open(page, 'lab?reset');
  await page.locator('#jp-main-dock-panel').waitFor({ timeout: 30000 });
  await runFromPalette(page, 'Show GPU Dask Panel');
  const panel = gpuDaskPanel(page);
  const meter = panel.getByRole('meter', { name: 'GPU 0 busy' });
  await expect(meter).toBeVisible();

  // JupyterLab itself says it too, some time later.
  const jupyterLab = page.getByRole('dialog', {
    name: 'Server Connection Error'
  });
  await page.addLocatorHandler(jupyterLab, async () =>
    jupyterLab.getByRole('button', { name: 'Close' }).click()
  );
  await server.stop();
  const notice = panel.getByText('The connection to the server is lost.');
  await expect(notice).toBeVisible({ timeout: 20000 });
  await expect(meter).toBeVisible();

  const again = panel.getByRole('button', { name: 'Retry now' });
  await again.hover();
  // Tried at once, and not when the pause between tries is over.
  await expect(panel.getByText(/Retrying in ([4-9]|\d\d) s/)).toBeVisible({
    timeout: 30000
  });
  const tried = page.waitForEvent('websocket', { timeout: 2000 });
  await again.click();
  await tried;
  await expect(notice).toBeVisible();

  await server.start();
  await expect(notice).toBeHidden({ timeout: 60000 });
  await expect(meter).toBeVisible();
});
