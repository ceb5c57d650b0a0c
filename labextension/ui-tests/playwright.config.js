const { execFileSync } = require('child_process');
const path = require('path');

const baseConfig = require('@jupyterlab/galata/lib/playwright-config');
const utils = require('@jupyterlab/galata/lib/utils');

const WORKERS = 2;
// For what does not happen at all, in milliseconds: a machine that is busy takes long.
const LIMIT = 60 * 1000;

// The workers read this file too, and inherit the ports.
process.env.GPUDASK_TEST_PORTS ??= freePorts(WORKERS);
const ports = process.env.GPUDASK_TEST_PORTS.split(',');
const urls = ports.map(port => `http://localhost:${port}`);
// Each worker has a server of its own: what a test sees is the clusters, kernels and GPUs of its server.
const baseURL = urls[Number(process.env.TEST_PARALLEL_INDEX ?? 0)];
// The page fixture of Galata reads its address from here.
process.env.TARGET_URL = baseURL;

// Galata has no setting for the 15 seconds after which it gives up, in `page.goto` for instance. The workers read this file too.
const { waitForCondition } = utils;
utils.waitForCondition = (condition, timeout = 0) =>
  waitForCondition(condition, Math.max(timeout, LIMIT));

/** So many ports that nobody uses, with commas; a configuration cannot wait for a promise. */
function freePorts(count) {
  const script = `
    const servers = Array.from({ length: ${count} }, () =>
      require('net').createServer().listen(0, 'localhost'));
    setTimeout(() => {
      console.log(servers.map(each => each.address().port).join());
      servers.forEach(each => each.close());
    }, 100);`;
  return execFileSync(process.execPath, ['-e', script], {
    encoding: 'utf8'
  }).trim();
}

module.exports = {
  ...baseConfig,
  testDir: 'tests',
  // Each test drives real kernels and clusters, on a machine that may be busy: it fails because something does not happen,
  // and not because it happens late.
  timeout: 240 * 1000,
  expect: {
    timeout: LIMIT,
    toPass: { timeout: 2 * LIMIT },
    // Text that another machine smooths otherwise is no difference.
    toHaveScreenshot: { maxDiffPixelRatio: 0.002 }
  },
  snapshotPathTemplate: '{testDir}/pictures/{arg}{ext}',
  forbidOnly: Boolean(process.env.CI),
  workers: WORKERS,
  // Also the tests of one file: each has a page of its own.
  fullyParallel: true,
  retries: 2,
  reporter: [['list']],
  use: {
    ...baseConfig.use,
    baseURL,
    // Recording needs a program that comes with Playwright's own browser only.
    video: 'off',
    launchOptions: {
      executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
      // The text of pictures is drawn alike on every machine.
      args: [
        '--no-sandbox',
        '--font-render-hinting=none',
        '--disable-lcd-text',
        '--force-color-profile=srgb'
      ]
    }
  },
  webServer: ports.map((port, index) => ({
    command: `${process.env.JUPYTER ?? 'jupyter'} lab --config jupyter_server_test_config.py`,
    url: `${urls[index]}/lab`,
    // The machine may have no GPU: the driver alone is pretended, for the server, the kernels and the workers.
    env: {
      GPUDASK_TEST_PORT: port,
      PYTHONPATH: path.resolve(__dirname, '../../tests/fake_gpus'),
      FAKE_GPUS: '2',
      FAKE_TRAFFIC: String(2.5 * 2 ** 30)
    },
    timeout: 120 * 1000,
    reuseExistingServer: false
  }))
};
