import { initialOptions, toMagic, toSpec } from '../dialogs/startOptions';
import { IClusterSpec, IProfileList, SpecRequest } from '../model/api';
import { cluster, gpu } from './fakeServer';

const PROFILES: IProfileList = {
  profiles: [],
  default: cluster().spec,
  only: false
};
const HOLDER = { name: 'other.ipynb', kernel_id: 'k', share: false };
const FREE = gpu();
const HELD = gpu({ index: 1, uuid: 'GPU-1', holders: [HOLDER] });

describe('the request of the start dialog', () => {
  it('is empty if nothing is changed', () => {
    const options = initialOptions([FREE], PROFILES);
    expect(toSpec(options, [FREE], PROFILES)).toEqual({});
  });

  it('has the free GPUs if another notebook holds some', () => {
    const gpus = [FREE, HELD];
    const options = initialOptions(gpus, PROFILES);
    expect(toSpec(options, gpus, PROFILES)).toEqual({ gpus: ['GPU-0'] });
  });

  it('starts with the previous options and their free GPUs', () => {
    const gpus = [FREE, HELD, gpu({ index: 2, uuid: 'GPU-2' })];
    const spec = {
      ...PROFILES.default,
      gpus: [0, 'GPU-1'],
      pool: 0.9,
      threads: 2
    };
    const options = initialOptions(gpus, PROFILES, spec);
    expect(toSpec(options, gpus, PROFILES)).toEqual({
      gpus: ['GPU-0'],
      pool: 0.9,
      threads: 2
    });
    const plain = { ...PROFILES.default };
    expect(
      toSpec(initialOptions([FREE], PROFILES, plain), [FREE], PROFILES)
    ).toEqual({});
  });

  it('has numbers if possible, and other texts for the server to validate', () => {
    const options = {
      ...initialOptions([FREE], PROFILES),
      pool: '0.5',
      spillThreshold: '20GB',
      threads: 'two'
    };
    expect(toSpec(options, [FREE], PROFILES)).toEqual({
      pool: 0.5,
      spill_threshold: '20GB',
      threads: 'two'
    });
  });

  it('has the range of workers, and a list of environment variables', () => {
    const spec: IClusterSpec = {
      ...PROFILES.default,
      adapt: [1, 4],
      environment: { A: '1', B: 'two words' }
    };
    const options = initialOptions([FREE], PROFILES, spec);
    const request = { adapt: '1,4', environment: ['A=1', 'B=two words'] };
    expect(toSpec(options, [FREE], PROFILES)).toMatchObject(request);
    const same = { ...PROFILES, default: spec };
    expect(toSpec(initialOptions([FREE], same), [FREE], same)).toEqual({});
  });

  it('has no GPU options on the CPU', () => {
    const options = {
      ...initialOptions([], PROFILES),
      pool: '0.5',
      workers: '3'
    };
    expect(toSpec(options, [], PROFILES)).toEqual({
      engine: 'cpu',
      workers: 3
    });
  });

  it('has no options if a profile is selected', () => {
    const options = {
      ...initialOptions([FREE], PROFILES),
      profile: 'small',
      pool: '0.5'
    };
    expect(toSpec(options, [FREE], PROFILES)).toEqual({});
  });
});

describe('the request where only profiles are allowed', () => {
  const only = { ...PROFILES, only: true };
  const gpus = [FREE, HELD];

  it('is that of the default options on the free GPUs, also if another notebook holds some', () => {
    const previous = { ...only.default, pool: 0.9 };
    for (const spec of [only.default, previous]) {
      const options = initialOptions(gpus, only, spec);
      expect(toSpec(options, gpus, only)).toEqual({ gpus: 'free' });
    }
  });

  it('leaves out the GPUs if the default options choose them', () => {
    const one = { ...only, default: { ...only.default, gpus: 1 } };
    const options = initialOptions(gpus, one);
    expect(toSpec(options, gpus, one)).toEqual({});
  });
});

describe('the line for a notebook', () => {
  const gpus = [gpu(), gpu({ index: 1, uuid: 'GPU-1' })];

  it.each([
    [{}, '', '%gpudask start'],
    [{ engine: 'cpu', workers: 2 }, '', '%gpudask start --cpu 2'],
    [{ engine: 'cuda' }, '', '%gpudask start --engine cuda'],
    [{ gpus: [] }, '', null],
    [{ gpus: ['GPU-1'] }, '', '%gpudask start --gpus 1,'],
    [{ gpus: ['GPU-0', 'GPU-1'] }, '', '%gpudask start --gpus 0,1'],
    [
      { gpus: 'all', pool: '20 GB', spill_threshold: 0.5, share: true },
      '',
      '%gpudask start --gpus all --pool "20 GB" --spill-threshold 0.5 --share yes'
    ],
    [
      { memory_limit: 'none', protocol: 'ucx' },
      '',
      '%gpudask start --memory-limit none --protocol ucx'
    ],
    [
      { adapt: '1,4', environment: ['A=1', 'B=two "words"'] },
      '',
      '%gpudask start --adapt 1,4 --environment A=1 --environment "B=two \\"words\\""'
    ],
    [{}, 'big', '%gpudask start --profile big']
  ] as const)('has the options %j', (spec, profile, line) => {
    expect(toMagic(spec as SpecRequest, profile, gpus)).toBe(line);
  });
});
