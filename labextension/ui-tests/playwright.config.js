const path = require('path');

const baseConfig = require('@jupyterlab/galata/lib/playwright-config');

const port = process.env.GPUDASK_TEST_PORT ?? '8888';
const baseURL = `http://localhost:${port}`;
// The page fixture of Galata reads its address from here.
process.env.TARGET_URL ??= baseURL;

module.exports = {
  ...baseConfig,
  testDir: 'tests',
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
      args: ['--no-sandbox']
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
