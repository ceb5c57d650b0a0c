/**
 * Dask's plots of a cluster that somebody else started, on a server with a token.
 */
import { expect, Frame, Page, test } from '@playwright/test';
import { ChildProcess, spawn } from 'child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'fs';
import { tmpdir } from 'os';
import path from 'path';

import {
  chooseAction,
  clusterCard,
  expectIdleKernel,
  gpuDaskPanel,
  runFromPalette,
  uploadNotebook
} from './helpers';
import { JupyterServer } from './jupyterServer';

const TOKEN = 'a-token-of-the-tests';
const server = new JupyterServer('/user/ada/', [
  `--IdentityProvider.token=${TOKEN}`,
  '--ServerApp.disable_check_xsrf=False'
]);
const folder = mkdtempSync(path.join(tmpdir(), 'others-'));
const file = path.join(folder, 'scheduler.json');
const processes: ChildProcess[] = [];

/** Tries what a page with the rights of the user could do, and shows what came of it. */
const ATTACK = `<!doctype html><title>attack</title><script type="module">
const base = location.pathname.split('gpudask/')[0];
const found = {};
const attempt = async (name, act) => {
  try {
    found[name] = String(await act());
  } catch {
    found[name] = 'refused';
  }
};
const status = reply => reply.status;
await attempt('contents', () =>
  fetch(base + 'api/contents', { credentials: 'include' }).then(status));
await attempt('change', () =>
  fetch(base + 'api/contents/evil.txt', {
    method: 'PUT',
    credentials: 'include',
    body: JSON.stringify({ type: 'file', format: 'text', content: 'evil' })
  }).then(status));
await attempt('stream', () =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket('ws://' + location.host + base + 'gpudask/api/stream');
    socket.onopen = () => resolve('open');
    socket.onerror = reject;
  }));
await attempt('cookie', () => document.cookie);
await attempt('storage', () => localStorage.length);
await attempt('parent', () => {
  if (parent === window) throw new Error('no parent');
  return parent.document.title;
});
document.documentElement.dataset.found = JSON.stringify(found);
</script>`;

const NOTHING = {
  contents: 'refused',
  change: 'refused',
  stream: 'refused',
  cookie: 'refused',
  storage: 'refused',
  parent: 'refused'
};

/** A module of the other user's scheduler. */
const PRELOAD = `
from tornado.web import RequestHandler

class Attack(RequestHandler):
    def get(self):
        self.set_header("Set-Cookie", "stolen=1; Path=/")
        self.finish(${JSON.stringify(ATTACK)})

def dask_setup(scheduler):
    scheduler.http_application.add_handlers(".*", [("/individual-attack", Attack)])
`;

/** Run `dask` with arguments, as the other user does. */
function dask(...options: string[]): void {
  const program = path.join(path.dirname(process.env.JUPYTER ?? ''), 'dask');
  processes.push(spawn(program, options, { cwd: folder, stdio: 'ignore' }));
}

function address(): string {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).address;
  } catch {
    return '';
  }
}

test.afterAll(async () => {
  await server.stop();
  processes.forEach(each => each.kill('SIGTERM'));
  rmSync(folder, { recursive: true });
});

/** The document in the tab of a plot. */
async function frameOf(page: Page, title: string): Promise<Frame> {
  const element = page.locator(`iframe[title="${title}: analysis.ipynb"]`);
  await expect(element).toHaveAttribute('sandbox', 'allow-scripts');
  const frame = await (await element.elementHandle())?.contentFrame();
  if (!frame) {
    throw new Error(`${title} is not in a frame`);
  }
  return frame;
}

/** How many rows the largest table of a plot has. */
function rows(frame: Frame): Promise<number> {
  return frame.evaluate(() => {
    const { Bokeh } = window as never as {
      Bokeh?: {
        documents: { all_models: Iterable<{ get_length?(): number }> }[];
      };
    };
    const models = Bokeh?.documents.flatMap(each => [...each.all_models]) ?? [];
    return Math.max(0, ...models.map(each => each.get_length?.() ?? 0));
  });
}

/** Run a cell of the notebook. */
async function runCell(page: Page, index: number): Promise<void> {
  const cell = page.locator('.jp-NotebookPanel .jp-Cell').nth(index);
  const prompt = cell.locator('.jp-InputPrompt');
  const run = page.getByRole('button', { name: 'Run this cell and advance' });
  // A page that still connects to its kernel does not run it.
  await expect(async () => {
    // eslint-disable-next-line jupyter/galata-prefer-notebook-cell-helper -- not a page of Galata, which has no cookies
    await cell.click({ timeout: 10000 });
    await run.click({ timeout: 10000 });
    await expect(prompt).not.toHaveText('[ ]:', { timeout: 10000 });
  }).toPass();
}

test('the plots of a joined cluster are live, and its pages have no rights at the server', async ({
  page,
  playwright
}) => {
  writeFileSync(path.join(folder, 'attack.py'), PRELOAD);
  const local = ['--host', '127.0.0.1', '--dashboard-address', '127.0.0.1:0'];
  const preload = ['--preload', 'attack.py', '--scheduler-file', file];
  dask('scheduler', ...local, '--port', '0', ...preload);
  await server.start();
  await expect.poll(address).toMatch(/^tcp:/);
  dask('worker', address(), '--name', 'first', '--nthreads', '1');

  const request = await playwright.request.newContext({
    extraHTTPHeaders: { Authorization: `token ${TOKEN}` }
  });
  await server.open(page, `lab?reset&token=${TOKEN}`);
  await uploadNotebook(request, 'analysis.ipynb', 'python3', server.url, [
    `%load_ext jupyter_gpudask
from distributed import Client
with Client("${address()}", set_as_default=False) as other:
    other.wait_for_workers(1)
connected = %gpudask connect ${address()}`,
    'tasks = connected.client.map(lambda number: number, range(300), pure=False)',
    '%gpudask disconnect'
  ]);
  const layouts: string[] = [];
  page.on('request', each => {
    if (each.url().includes('/api/workspaces')) {
      layouts.push(each.postData() ?? '');
    }
  });
  await page.goto(`${server.url}lab/tree/analysis.ipynb?reset`);
  await expectIdleKernel(page);
  await runFromPalette(page, 'Show GPU Dask Panel');
  await runCell(page, 0);
  const card = clusterCard(page);
  await expect(card.getByText('connected')).toBeVisible();

  // What only its owner does is disabled, with the reason; the plots are not.
  const owned = `This kernel is connected to ${address()}, which somebody else started.`;
  const stop = card.getByRole('button', { name: 'Stop' });
  await expect(stop).toHaveAttribute('aria-disabled', 'true');
  const notStopped = `${owned} It is not stopped from here.`;
  await expect(stop).toHaveAccessibleDescription(notStopped);
  await stop.focus();
  await expect(stop).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await expect(card.getByText('connected')).toBeVisible();
  await card.getByRole('button', { name: 'More actions' }).click();
  const scale = page.getByRole('menuitem', { name: 'Scale Cluster…' });
  await expect(scale).toHaveAttribute('aria-disabled', 'true');
  await expect(scale).toHaveAccessibleDescription(
    `${owned} Its workers are started and stopped there.`
  );
  await page.keyboard.press('Escape');
  await card.getByRole('button', { name: 'Choose a plot' }).click();
  await page.getByPlaceholder('Search the plots').fill('task str');
  await page.keyboard.press('Enter');
  const plot = await frameOf(page, 'Task Stream');
  await expect(plot.locator('canvas').first()).toBeVisible();
  expect(await rows(plot)).toBeLessThan(100);
  await page.getByRole('tab', { name: 'analysis.ipynb' }).first().click();
  await runCell(page, 1);
  await expect.poll(() => rows(plot)).toBeGreaterThanOrEqual(300);
  await page.getByRole('tab', { name: 'Task Stream' }).click();
  await chooseAction(card, 'Open Dask Dashboard');
  const dashboard = await frameOf(page, 'Dask');
  await expect(dashboard.locator('canvas').first()).toBeVisible();

  // The same attempts succeed where the page has the rights of the user.
  const attempts = await page.evaluate(async base => {
    const reply = await fetch(`${base}api/contents`);
    return [reply.status, localStorage.length >= 0, document.cookie !== ''];
  }, '/user/ada/');
  expect(attempts).toEqual([200, true, true]);
  // Not in a frame of the page either, whatever its attribute says.
  const clusters = await request.get(`${server.url}gpudask/api/clusters`);
  const [{ kernel_id: kernelId }] = (await clusters.json()).clusters;
  const attack = `${server.url}gpudask/dashboard/${kernelId}/individual-attack`;
  await page.evaluate(url => {
    const frame = document.createElement('iframe');
    frame.name = 'attack';
    frame.src = url;
    document.body.append(frame);
  }, attack);
  const found = (frame: Frame | null): Promise<unknown> =>
    frame?.evaluate(() =>
      JSON.parse(document.documentElement.dataset.found ?? 'null')
    ) ?? Promise.resolve(null);
  await expect.poll(() => found(page.frame('attack'))).toEqual(NOTHING);
  // Nor as a page of its own, as in Notebook 7.
  const own = await page.context().newPage();
  await own.goto(attack);
  expect(own.url()).toMatch(/\/user\/ada\/gpudask\/joined\/[\w-]{43}\//);
  await expect.poll(() => found(own.mainFrame())).toEqual(NOTHING);
  const cookies = await page.context().cookies();
  expect(cookies.map(each => each.name)).not.toContain('stolen');
  await own.close();

  const [, secret] = /joined\/([\w-]{43})\//.exec(plot.url()) ?? [];
  expect(secret).toBeDefined();
  await expect.poll(() => layouts.join()).toContain('jupyter-gpudask-dashb');
  expect(layouts.join()).not.toContain(secret);
  await page.getByRole('tab', { name: 'analysis.ipynb' }).first().click();
  await runCell(page, 2);
  await expect(gpuDaskPanel(page)).toContainText('has no cluster');
  const gone = `${server.url}gpudask/joined/${secret}/status`;
  expect((await request.get(gone)).status()).toBe(404);
  await request.dispose();
});
