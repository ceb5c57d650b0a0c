import { initialChoices, specOf } from '../dialogs/startOptions';
import { IProfileList } from '../model/api';
import { cluster, gpu } from './fakeServer';

const OFFER: IProfileList = { profiles: [], default: cluster().spec };
const HOLDER = { name: 'other.ipynb', kernel_id: 'k', share: false };
const FREE = gpu();
const HELD = gpu({ index: 1, uuid: 'GPU-1', holders: [HOLDER] });

describe('the order', () => {
  it('leaves everything to the server where nothing is chosen', () => {
    const choices = initialChoices([FREE], OFFER);
    expect(specOf(choices, [FREE], OFFER)).toEqual({});
  });

  it('names the free GPUs where another notebook holds some', () => {
    const gpus = [FREE, HELD];
    const choices = initialChoices(gpus, OFFER);
    expect(specOf(choices, gpus, OFFER)).toEqual({ gpus: ['GPU-0'] });
  });

  it('is at first what was asked for before, with the GPUs of it that are free', () => {
    const gpus = [FREE, HELD, gpu({ index: 2, uuid: 'GPU-2' })];
    const spec = {
      ...OFFER.default,
      gpus: [0, 'GPU-1'],
      pool: 0.9,
      threads: 2
    };
    const choices = initialChoices(gpus, OFFER, spec);
    expect(specOf(choices, gpus, OFFER)).toEqual({
      gpus: ['GPU-0'],
      pool: 0.9,
      threads: 2
    });
    const plain = { ...OFFER.default };
    expect(specOf(initialChoices([FREE], OFFER, plain), [FREE], OFFER)).toEqual(
      {}
    );
  });

  it('has numbers where they are, and text for the server to judge', () => {
    const choices = {
      ...initialChoices([FREE], OFFER),
      pool: '0.5',
      spillThreshold: '20GB',
      threads: 'two'
    };
    expect(specOf(choices, [FREE], OFFER)).toEqual({
      pool: 0.5,
      spill_threshold: '20GB',
      threads: 'two'
    });
  });

  it('has no options of GPUs on the CPU', () => {
    const choices = {
      ...initialChoices([], OFFER),
      pool: '0.5',
      workers: '3'
    };
    expect(specOf(choices, [], OFFER)).toEqual({ engine: 'cpu', workers: 3 });
  });

  it('of a profile is the profile alone', () => {
    const choices = {
      ...initialChoices([FREE], OFFER),
      profile: 'small',
      pool: '0.5'
    };
    expect(specOf(choices, [FREE], OFFER)).toEqual({});
  });
});
