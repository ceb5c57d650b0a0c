/**
 * The browser's side of server_cost.py: node server_cost.mjs URL TOKEN SECONDS prints what was measured, as JSON.
 */
import { createRequire } from 'node:module';

const require = createRequire(
  new URL('../labextension/ui-tests/package.json', import.meta.url)
);
const { chromium } = require('@playwright/test');

const [url, token, secondsText] = process.argv.slice(2);
const SECONDS = Number(secondsText);
const VIEWPORT = { width: 1280, height: 720 };
const headers = { Authorization: `token ${token}` };

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: ['--no-sandbox']
});
const page = await browser.newPage({
  viewport: VIEWPORT,
  extraHTTPHeaders: headers
});
const devtools = await page.context().newCDPSession(page);
const ofBrowser = await browser.newBrowserCDPSession();
await devtools.send('Performance.enable');

/** Run a command of JupyterLab. */
function execute(command, args = {}) {
  return page.evaluate(
    ([id, options]) => window.jupyterapp.commands.execute(id, options),
    [command, args]
  );
}

/** Seconds that were spent so far: by all processes of the browser, by the page's main thread, in its scripts. */
async function spent() {
  const { metrics } = await devtools.send('Performance.getMetrics');
  const { processInfo } = await ofBrowser.send('SystemInfo.getProcessInfo');
  const metric = name => metrics.find(each => each.name === name).value;
  return {
    processes: processInfo.reduce((sum, each) => sum + each.cpuTime, 0),
    tasks: metric('TaskDuration'),
    scripts: metric('ScriptDuration')
  };
}

/** What a second costs now. */
async function watch() {
  await page.waitForTimeout(5000);
  // What was before is not to be cleared away meanwhile.
  await devtools.send('HeapProfiler.collectGarbage');
  await page.waitForTimeout(1000);
  const before = await spent();
  await page.waitForTimeout(SECONDS * 1000);
  const after = await spent();
  return Object.fromEntries(
    Object.keys(before).map(key => [key, (after[key] - before[key]) / SECONDS])
  );
}

/** In words; one message comes a second. */
function told({ processes, tasks, scripts }) {
  return {
    core_percent: round(100 * processes),
    main_thread_percent: round(100 * tasks),
    script_ms_per_tick: round(1000 * scripts)
  };
}

/** What is more than without. */
function above(cost, without) {
  return told(
    Object.fromEntries(
      Object.keys(cost).map(key => [key, cost[key] - without[key]])
    )
  );
}

function round(value) {
  return Math.round(value * 100) / 100;
}

/** Scroll by the wheel for some seconds, and look at the frames. */
async function scroll(selector) {
  const box = await page.locator(selector).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.evaluate(() => {
    window.frames_ = [];
    const note = time => {
      window.frames_.push(time);
      requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
  });
  await devtools.send('Input.synthesizeScrollGesture', {
    x: box.x + box.width / 2,
    y: box.y + box.height / 2,
    yDistance: -12000,
    speed: 3000
  });
  const times = await page.evaluate(() => window.frames_);
  const gaps = times.slice(1).map((time, index) => time - times[index]);
  gaps.sort((one, other) => one - other);
  const total = gaps.reduce((sum, gap) => sum + gap, 0);
  return {
    workers: 500,
    frames_per_second: round((1000 * gaps.length) / total),
    p99_frame_ms: round(gaps[Math.floor(gaps.length * 0.99)]),
    longest_frame_ms: round(gaps.at(-1)),
    rows_drawn: await page.locator(`${selector} li`).count()
  };
}

const responses = [];
page.on('response', response => {
  if (response.url().includes('/lab/extensions/jupyter-gpudask/')) {
    responses.push(response);
  }
});
await page.goto(`${url}lab?reset`);
await page.waitForFunction(() => window.jupyterapp?.restored);
await page.evaluate(() => window.jupyterapp.restored);
await page.waitForTimeout(3000);
const bodies = await Promise.all(responses.map(response => response.body()));
const bytes = bodies.reduce((sum, body) => sum + body.length, 0);

if (SECONDS === 0) {
  console.log(
    JSON.stringify({
      chromium: browser.version(),
      viewport: VIEWPORT,
      bytes_at_start: bytes
    })
  );
  await browser.close();
  process.exit();
}

// Lab is busy for a while after its start.
await page.waitForTimeout(15000);
const closed = await watch();
await execute('gpudask:show-panel');
const panel = await watch();
await execute('application:toggle-left-area');
await execute('gpudask:show-history');
const history = await watch();
await execute('application:close', {});

const clusters = `${url}gpudask/api/clusters`;
const kernel = await (
  await page.request.post(`${url}api/kernels`, { data: { name: 'huge' } })
).json();
await page.request.post(clusters, {
  data: { kernel_id: kernel.id, spec: { engine: 'cpu', workers: 1 } }
});
await page.waitForTimeout(15000);
await execute('gpudask:show-history');
await page.waitForTimeout(10000);
const longHistory = await watch();
await execute('application:close', {});
await execute('gpudask:show-panel');
const list = '.jp-GpuDask-workerWindow';
await page.locator(list).waitFor({ timeout: 30000 });
await page.locator(list).scrollIntoViewIfNeeded();
const scrolling = await scroll(list);

console.log(
  JSON.stringify({
    chromium: browser.version(),
    viewport: VIEWPORT,
    bytes_at_start: bytes,
    seconds: SECONDS,
    without: told(closed),
    panel: above(panel, closed),
    history: above(history, closed),
    history_of_564_workers: above(longHistory, closed),
    scrolling
  })
);
await browser.close();
