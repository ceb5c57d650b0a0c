import { nullTranslator } from '@jupyterlab/translation';

import {
  endOf,
  inPanelWords,
  problemOf,
  refusalOf,
  sentenceOf
} from '../errors';
import { RefusedError } from '../model/rest';
import { cluster } from './fakeServer';

const trans = nullTranslator.load('jupyter_gpudask');

describe('what the server says', () => {
  it.each([
    [
      "--pool 'lots' is not allowed:",
      'pool',
      "Memory pool 'lots' is not allowed:"
    ],
    ["--cpu 'x' is not allowed:", 'workers', "Workers 'x' is not allowed:"],
    ['--spill-threshold asks for 9 GiB.', '', 'Spill above asks for 9 GiB.'],
    [
      'take free ones with --gpus 1, or --share yes in both.',
      '',
      'take free ones with “GPUs” 1, or “Share” yes in both.'
    ],
    ['or start with --cpu.', '', 'or start with “CPU stand-in”.']
  ])('is in the words of the panel: %s', (text, field, expected) => {
    expect(inPanelWords(text, trans, field)).toBe(expected);
  });

  it('names the field by its label, and keeps its kind', () => {
    const error = new RefusedError(422, {
      message: "--threads 'many' is not allowed:",
      fix: 'give a whole number from 1 to 256.',
      kind: 'SpecError',
      field: 'threads'
    });
    expect(problemOf(error, trans)).toMatchObject({
      field: 'threads',
      kind: 'SpecError'
    });
    expect(sentenceOf(error, trans)).toBe(
      "Threads 'many' is not allowed: give a whole number from 1 to 256."
    );
  });

  it('is what an error says where it was not the server', () => {
    expect(sentenceOf(new TypeError('Failed to fetch'), trans)).toBe(
      'Failed to fetch'
    );
  });
});

describe('the end of a cluster', () => {
  it('is told apart from the lines of a log below it', () => {
    const lost = cluster({
      status: 'failed',
      reason: 'The process was killed by SIGKILL.',
      fix: 'Type: %gpudask restart\none line\nanother'
    });
    expect(endOf(lost, trans)).toEqual({
      reason: 'The process was killed by SIGKILL.',
      fix: 'Type: %gpudask restart',
      log: 'one line\nanother'
    });
  });
});

describe('a start that was refused', () => {
  it('is about the field whose option the server names', () => {
    const refused = cluster({
      status: 'failed',
      workers_total: 0,
      workers_ready: 0,
      reason: 'GPU 0 is held by other.ipynb.',
      fix: 'Type %gpudask stop there, take free ones with --gpus 1, or --share yes in both.'
    });
    expect(refusalOf(refused, trans)).toMatchObject({
      field: 'gpus',
      message: 'GPU 0 is held by other.ipynb.'
    });
    const missing = 'This machine has a GPU, but … lacks cupy.';
    const fix = 'Type: %pip install cupy, or start with --cpu.';
    expect(refusalOf({ ...refused, reason: missing, fix }, trans)?.field).toBe(
      'engine'
    );
    expect(refusalOf({ ...refused, fix: '' }, trans)?.field).toBe('');
  });

  it('is not a cluster that was up', () => {
    expect(refusalOf(cluster({ status: 'failed' }), trans)).toBeNull();
    expect(refusalOf(cluster({ workers_ready: 0 }), trans)).toBeNull();
  });
});
