import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';

import {
  endReason,
  replaceOptionNames,
  toProblem,
  startProblem,
  errorMessage
} from '../errors';
import { ResponseError } from '../model/rest';
import { cluster } from './fakeServer';

const trans = nullTranslator.load('jupyter_gpudask');

describe('an error of the server', () => {
  it.each([
    [
      "--pool 'lots' is not allowed:",
      'pool',
      "Memory pool 'lots' is not allowed:"
    ],
    ["--cpu 'x' is not allowed:", 'workers', "Workers 'x' is not allowed:"],
    ['--spill-threshold asks for 9 GiB.', '', 'Spill above asks for 9 GiB.'],
    [
      'Type %gpudask stop there, start on the GPUs that are free with --gpus free, or start both clusters with --share yes.',
      '',
      'Type %gpudask stop there, start on the GPUs that are free, or start both clusters with “Share with other clusters that share GPUs” selected.'
    ],
    [
      '--pool asks for 9 GiB: give less, or take others with --gpus 1.',
      '',
      'Memory pool asks for 9 GiB: give less, or take others with “GPUs” 1.'
    ],
    ['or start with --cpu.', '', 'or start with “CPU stand-in”.']
  ])('names the fields of the panel: %s', (text, field, expected) => {
    expect(replaceOptionNames(text, trans, field)).toBe(expected);
  });

  it('has the label of its field, and keeps its kind', () => {
    const error = new ResponseError(422, {
      message: "--threads 'many' is not allowed:",
      fix: 'give a whole number from 1 to 256.',
      kind: 'SpecError',
      field: 'threads'
    });
    expect(toProblem(error, trans)).toMatchObject({
      field: 'threads',
      kind: 'SpecError'
    });
    expect(errorMessage(error, trans)).toBe(
      "Threads 'many' is not allowed: give a whole number from 1 to 256."
    );
  });

  it('names the connection where the browser only says that it failed', () => {
    const error = new ServerConnection.NetworkError(
      new TypeError('Failed to fetch')
    );
    expect(errorMessage(error, trans)).toBe(
      'The connection to the server is lost.'
    );
  });

  it('is the message of any other error', () => {
    expect(errorMessage(new TypeError('Failed to fetch'), trans)).toBe(
      'Failed to fetch'
    );
  });
});

describe('the reason that a cluster ended', () => {
  it('is separated from the lines of the log', () => {
    const lost = cluster({
      status: 'failed',
      reason: 'The process was killed by SIGKILL.',
      fix: 'Type: %gpudask restart\none line\nanother'
    });
    expect(endReason(lost, trans)).toEqual({
      reason: 'The process was killed by SIGKILL.',
      fix: 'Type: %gpudask restart',
      log: 'one line\nanother'
    });
  });
});

describe('a refused start', () => {
  it('has the field of the first option in the message', () => {
    const refused = cluster({
      status: 'failed',
      workers_total: 0,
      workers_ready: 0,
      reason: 'GPU 0 is held by other.ipynb.',
      fix: 'Type %gpudask stop there, start on the GPUs that are free with --gpus free, or start both clusters with --share yes.'
    });
    expect(startProblem(refused, trans)).toMatchObject({
      field: 'gpus',
      message: 'GPU 0 is held by other.ipynb.'
    });
    const missing = 'This machine has a GPU, but … lacks cupy.';
    const fix = 'Type: %pip install cupy, or start with --cpu.';
    expect(
      startProblem({ ...refused, reason: missing, fix }, trans)?.field
    ).toBe('engine');
    expect(startProblem({ ...refused, fix: '' }, trans)?.field).toBe('');
  });

  it('is not reported for a cluster that did start', () => {
    expect(startProblem(cluster({ status: 'failed' }), trans)).toBeNull();
    expect(startProblem(cluster({ workers_ready: 0 }), trans)).toBeNull();
  });
});
