/**
 * A server of its own, under a base URL, that ends and comes again.
 */
import { ChildProcess, spawn } from 'child_process';
import { AddressInfo, createServer } from 'net';

import { expect, test } from '@playwright/test';

import { gpuDaskPanel, runFromPalette } from './panel';

const BASE_URL = '/user/ada/';

test.describe.configure({ timeout: 120000 });

let port: number;
let server: ChildProcess | undefined;

test.beforeAll(async () => {
  port = await freePort();
});

test.afterEach(async () => stop());

function freePort(): Promise<number> {
  return new Promise(resolve => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}

function start(): void {
  server = spawn(
    process.env.JUPYTER ?? 'jupyter',
    [
      'lab',
      '--config=jupyter_server_test_config.py',
      `--ServerApp.port=${port}`,
      '--ServerApp.port_retries=0',
      `--ServerApp.base_url=${BASE_URL}`
    ],
    {
      env: {
        ...process.env,
        PYTHONPATH: `${__dirname}/../../../tests/fake_gpus`,
        FAKE_GPUS: '2'
      },
      stdio: 'ignore'
    }
  );
}

async function stop(): Promise<void> {
  const stopped = server;
  server = undefined;
  if (stopped && stopped.exitCode === null) {
    const over = new Promise(resolve => stopped.once('exit', resolve));
    stopped.kill('SIGTERM');
    await over;
  }
}

test('under a base URL the panel loses its server, says so, and finds it again', async ({
  page
}) => {
  start();
  await expect(async () => {
    await page.goto(`http://localhost:${port}${BASE_URL}lab?reset`);
  }).toPass({ timeout: 60000 });
  await page.locator('#jp-main-dock-panel').waitFor({ timeout: 30000 });
  await runFromPalette(page, 'Show GPU Dask panel');
  const panel = gpuDaskPanel(page);
  const meter = panel.getByRole('meter', { name: 'GPU 0 busy' });
  await expect(meter).toBeVisible();

  await stop();
  const notice = panel.getByText('The connection to the server is lost.');
  await expect(notice).toBeVisible({ timeout: 20000 });
  await expect(meter).toBeVisible();

  start();
  await expect(notice).toBeHidden({ timeout: 60000 });
  await expect(meter).toBeVisible();
});
