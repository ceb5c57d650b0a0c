import { nullTranslator } from '@jupyterlab/translation';

import { formerName, workerNames } from '../cluster/names';
import { gpu } from './fakeServer';

const trans = nullTranslator.load('jupyterlab');

const names = (
  workers: [string, number | null][],
  withHosts = true
): string[] => [
  ...workerNames(
    workers.map(([host, gpu_index], index) => ({
      host,
      gpu_index,
      name: `${index}`
    })),
    trans,
    withHosts
  ).values()
];

// tests/protocol/test_models.py has the same cases.
describe('the names of workers', () => {
  it('are those of their GPUs, if they have one', () => {
    expect(
      names([
        ['a', 0],
        ['a', 3],
        ['a', null]
      ])
    ).toEqual(['GPU 0', 'GPU 3', 'Worker 2']);
  });

  it('are numbered if workers share a GPU', () => {
    expect(
      names([
        ['a', 0],
        ['a', 1],
        ['a', 0]
      ])
    ).toEqual(['GPU 0, worker 1', 'GPU 1', 'GPU 0, worker 2']);
  });

  it('have the host if there are several, where it is not shown otherwise', () => {
    const workers: [string, number][] = [
      ['a', 0],
      ['b', 0],
      ['b', 0]
    ];
    expect(names(workers)).toEqual([
      'a GPU 0',
      'b GPU 0, worker 1',
      'b GPU 0, worker 2'
    ]);
    expect(names(workers, false)).toEqual([
      'GPU 0',
      'GPU 0, worker 1',
      'GPU 0, worker 2'
    ]);
  });

  it('are those of the GPUs also for workers that have left', () => {
    const gpus = [gpu()];
    expect(formerName(gpus[0].uuid, gpus, trans)).toBe('GPU 0');
    expect(formerName('7', gpus, trans)).toBe('Worker 7');
  });
});
