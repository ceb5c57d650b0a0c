/**
 * A Jupyter server for a single test, with options of its own.
 */
import { ChildProcess, spawn } from 'child_process';
import { AddressInfo, createServer } from 'net';

import { expect, Page } from '@playwright/test';

export class JupyterServer {
  /**
   * @param _baseUrl - the base URL, which starts and ends with a slash
   * @param _options - arguments of `jupyter lab`
   */
  constructor(
    private readonly _baseUrl: string,
    private readonly _options: string[] = []
  ) {}

  /** The address of the server. */
  get url(): string {
    return `http://localhost:${this._port}${this._baseUrl}`;
  }

  /** Start the server, at the same port as before. */
  async start(): Promise<void> {
    this._port ||= await freePort();
    this._process = spawn(
      process.env.JUPYTER ?? 'jupyter',
      [
        'lab',
        '--config=jupyter_server_test_config.py',
        `--ServerApp.port=${this._port}`,
        '--ServerApp.port_retries=0',
        `--ServerApp.base_url=${this._baseUrl}`,
        ...this._options
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

  /** Stop the server, if it is running. */
  async stop(): Promise<void> {
    const stopped = this._process;
    this._process = undefined;
    if (stopped && stopped.exitCode === null) {
      const exited = new Promise(resolve => stopped.once('exit', resolve));
      stopped.kill('SIGTERM');
      // A server whose kernel is still starting may wait for it for minutes.
      const timeout = setTimeout(() => stopped.kill('SIGKILL'), 30000);
      await exited;
      clearTimeout(timeout);
    }
  }

  /** Open a page as soon as the server responds. */
  async open(page: Page, path: string): Promise<void> {
    await expect(async () => {
      await page.goto(this.url + path);
    }).toPass();
  }

  private _port = 0;
  private _process: ChildProcess | undefined;
}

function freePort(): Promise<number> {
  return new Promise(resolve => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
