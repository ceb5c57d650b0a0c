import { nullTranslator } from '@jupyterlab/translation';

import { RefusedError } from '../model/rest';
import { endOf, inPanelWords, problemOf, sentenceOf } from '../problems';
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
