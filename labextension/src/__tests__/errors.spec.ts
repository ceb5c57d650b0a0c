import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator, TranslationBundle } from '@jupyterlab/translation';

import { endReason, errorMessage, toProblem } from '../errors';
import { ResponseError } from '../model/rest';
import { cluster, details } from './fakeServer';

const trans = nullTranslator.load('jupyter_gpudask');

const HELD = details({
  reason: 'GPU {gpu} is reserved.',
  fix: 'Start on the others with {--gpus free}, or start both with {--share yes}.',
  fields: { gpu: '0' },
  labels: { '--gpus': 'GPUs', '--share': 'Share GPUs' },
  field: 'gpus',
  actions: ['start-on-free']
});

const LABELS = { '--pool': 'Memory pool', '--engine': 'Runs on' };

/** The reason of a cluster that did not start, from a sentence of the catalog. */
const reasonOf = (reason: string, fields = {}): string =>
  endReason(
    cluster({
      error: details({ reason, fields, labels: LABELS }),
      reason: 'English.'
    }),
    trans
  ).message;

describe('an error of the catalog', () => {
  it.each<[string, object, string]>([
    [
      '{option} {value} is not allowed:',
      { option: '--pool', value: "'lots'" },
      "Memory pool 'lots' is not allowed:"
    ],
    [
      '{option} {value} is not allowed:',
      { option: 'gpu(array=...)', value: "'x'" },
      "gpu(array=...) 'x' is not allowed:"
    ],
    [
      '{--pool} asks for {pool}, or start with {--engine cpu}.',
      { pool: '9 GiB' },
      'Memory pool asks for 9 GiB, or start with “Runs on: cpu”.'
    ],
    ['Add {{"interface": {name}}}.', { name: 'x' }, 'Add {"interface": x}.']
  ])('has its values and the labels of the panel: %s', (...given) => {
    const [sentence, fields, expected] = given;
    expect(reasonOf(sentence, fields)).toBe(expected);
  });

  it('names what the panel has for the values of options', () => {
    expect(endReason(cluster({ error: HELD }), trans)).toEqual({
      message: 'GPU 0 is reserved.',
      fix: 'Start on the others with “GPUs: free”, or start both with “Share GPUs: yes”.'
    });
  });

  it('is in the language of the user', () => {
    const german = {
      __: (text: string) => (text === HELD.reason ? 'GPU {gpu} belegt.' : text)
    } as unknown as TranslationBundle;
    const { message } = endReason(cluster({ error: HELD }), german);
    expect(message).toBe('GPU 0 belegt.');
  });

  it('of another version has the text of the server', () => {
    const old = cluster({ reason: 'It --was killed.', fix: 'Restart it.' });
    expect(endReason(old, trans)).toEqual({
      message: 'It --was killed.',
      fix: 'Restart it.'
    });
  });
});

describe('an error of a request', () => {
  it('keeps its field and its kind, as do the errors of other fields', () => {
    const other = { message: '', fix: '', kind: '', field: 'pool' };
    const error = new ResponseError(422, {
      message: 'English.',
      fix: '',
      kind: 'SpecError',
      field: 'threads',
      error: details({
        reason: '{option} is not allowed:',
        fix: 'give {allowed}.',
        fields: { option: '--threads', allowed: '1 to 256' },
        labels: { '--threads': 'Threads' },
        field: 'threads'
      }),
      others: [
        {
          ...other,
          error: details({ reason: '{--pool} is too large.', labels: LABELS })
        }
      ]
    });
    expect(toProblem(error, trans)).toMatchObject({
      field: 'threads',
      kind: 'SpecError',
      others: [{ message: 'Memory pool is too large.', field: 'pool' }]
    });
    expect(errorMessage(error, trans)).toBe(
      'Threads is not allowed: give 1 to 256.'
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
