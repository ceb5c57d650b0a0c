/**
 * A server with a base URL and an administrator's settings that is stopped and started again.
 */
import { expect, test } from '@playwright/test';
import { mkdtempSync, rmSync, writeFileSync } from 'fs';
import { tmpdir } from 'os';
import { join } from 'path';

import { JupyterServer } from './jupyterServer';
import { gpuDaskPanel, runFromPalette } from './helpers';

// What an administrator sets for all users.
const folder = mkdtempSync(join(tmpdir(), 'settings-'));
writeFileSync(
  join(folder, 'overrides.json'),
  JSON.stringify({ 'jupyter-gpudask:settings': { units: 'GB' } })
);
const server = new JupyterServer('/user/ada/', [
  `--LabApp.app_settings_dir=${folder}`
]);

test.afterEach(async () => server.stop());
test.afterAll(() => rmSync(folder, { recursive: true }));

test('with a base URL, the panel reports a lost server, and reconnects', async ({
  page
}) => {
  await server.start();
  await server.open(page, 'lab?reset');
  // It opens when the layout is restored; before, the panel would be hidden again.
  await page.getByRole('tab', { name: 'Launcher' }).waitFor();
  await runFromPalette(page, 'Show GPU Dask Panel');
  const panel = gpuDaskPanel(page);
  const meter = panel.getByRole('meter', { name: 'GPU 0 busy' });
  await expect(meter).toBeVisible();
  await expect(
    panel.getByRole('meter', { name: 'GPU 0 memory' })
  ).toHaveAttribute('aria-valuetext', '1.1 of 150 GB');

  // JupyterLab itself says it too, some time later.
  const jupyterLab = page.getByRole('dialog', {
    name: 'Server Connection Error'
  });
  await page.addLocatorHandler(jupyterLab, async () =>
    jupyterLab.getByRole('button', { name: 'Close' }).click()
  );
  await server.stop();
  const notice = panel.getByText('The connection to the server is lost.');
  await expect(notice).toBeVisible();
  await expect(meter).toBeVisible();

  const again = panel.getByRole('button', { name: 'Retry now' });
  await again.hover();
  const tried = page.waitForEvent('websocket');
  await again.click();
  await tried;
  await expect(notice).toBeVisible();

  await server.start();
  await expect(notice).toBeHidden();
  await expect(meter).toBeVisible();
});
