const path = require('path');

const baseConfig = require('@jupyterlab/galata/lib/playwright-config');

const port = process.env.GPUDASK_TEST_PORT ?? '8888';
const baseURL = `http://localhost:${port}`;
// The page fixture of Galata reads its address from here.
process.env.TARGET_URL ??= baseURL;

module.exports = {
  ...baseConfig,
  testDir: 'tests',
  // Text that another machine smooths otherwise is no difference.
  expect: { toHaveScreenshot: { maxDiffPixelRatio: 0.002 } },
  snapshotPathTemplate: '{testDir}/pictures/{arg}{ext}',
  forbidOnly: Boolean(process.env.CI),
  workers: 1,
  // Each test drives real kernels and clusters; on a machine that is busy one may be late.
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
  webServer: {
    command: `${process.env.JUPYTER ?? 'jupyter'} lab --config jupyter_server_test_config.py`,
    url: `${baseURL}/lab`,
    // The machine may have no GPU: the driver alone is pretended, for the server, the kernels and the workers.
    env: {
      PYTHONPATH: path.resolve(__dirname, '../../tests/fake_gpus'),
      FAKE_GPUS: '2',
      FAKE_TRAFFIC: String(2.5 * 2 ** 30)
    },
    timeout: 120 * 1000,
    reuseExistingServer: false
  }
};
