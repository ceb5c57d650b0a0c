import { Values } from '../dialogs/schemaForm';
import {
  initialValues,
  IOffer,
  isAvailable,
  shownOptions,
  toMagic,
  toSpec
} from '../dialogs/startOptions';
import { IClusterSpec, SpecRequest } from '../model/api';
import { cluster, gpu, OPTIONS } from './fakeServer';

const DEFAULT = cluster().spec;
const HOLDER = { name: 'other.ipynb', kernel_id: 'k', share: false };
const FREE = gpu();
const HELD = gpu({ index: 1, uuid: 'GPU-1', holders: [HOLDER] });

const offerOf = (gpus = [FREE], only = false, spec = DEFAULT): IOffer => ({
  schema: OPTIONS,
  presets: {
    presets: [{ name: 'small', title: 'Small', spec }],
    default: spec,
    only
  },
  gpus
});

const requestOf = (values: Values, offer = offerOf()): SpecRequest =>
  toSpec({ ...initialValues(offer), ...values }, offer);

describe('the request of the start dialog', () => {
  it('is empty if nothing is changed', () => {
    expect(requestOf({})).toEqual({});
  });

  it('has the free GPUs if another notebook has reserved some', () => {
    expect(requestOf({}, offerOf([FREE, HELD]))).toEqual({ gpus: 'GPU-0' });
  });

  it('has all GPUs that can be waited for if none is free', () => {
    const offer = offerOf([HELD]);
    expect(requestOf({ wait: true }, offer)).toEqual({ wait: true });
    const available = { share: true, wait: false };
    expect(isAvailable(HELD, available)).toBe(false);
    expect(isAvailable(HELD, { ...available, wait: true })).toBe(true);
  });

  it('starts with the previous options and their free GPUs', () => {
    const offer = offerOf([FREE, HELD, gpu({ index: 2, uuid: 'GPU-2' })]);
    const spec = { ...DEFAULT, gpus: [0, 'GPU-1'], pool: 0.9, threads: 2 };
    expect(toSpec(initialValues(offer, spec), offer)).toEqual({
      gpus: 'GPU-0',
      pool: 0.9,
      threads: 2
    });
    expect(toSpec(initialValues(offerOf(), { ...DEFAULT }), offer)).toEqual({});
  });

  it('has numbers if possible, and other texts for the server to validate', () => {
    const values = { pool: '0.5', spill_threshold: '20GB ', threads: 'two' };
    expect(requestOf(values)).toEqual({
      pool: 0.5,
      spill_threshold: '20GB',
      threads: 'two'
    });
  });

  it('has the range of workers, and a list of environment variables', () => {
    const spec: IClusterSpec = {
      ...DEFAULT,
      adapt: [1, 4],
      environment: { A: '1', B: 'two words' }
    };
    const offer = offerOf();
    const request = { adapt: '1,4', environment: ['A=1', 'B=two words'] };
    expect(toSpec(initialValues(offer, spec), offer)).toEqual(request);
    expect(requestOf({}, offerOf([FREE], false, spec))).toEqual({});
  });

  it('has no GPU options on the CPU', () => {
    expect(requestOf({ pool: '0.5', workers: '3' }, offerOf([]))).toEqual({
      engine: 'cpu',
      workers: 3
    });
  });

  it('has no other options if a preset is selected', () => {
    const values = { preset: 'small', pool: '0.5' };
    expect(requestOf(values)).toEqual({ preset: 'small' });
  });

  it('has an option that is new in the schema', () => {
    const color = { ...OPTIONS.protocol, title: 'Color', enum: ['red'] };
    const offer = { ...offerOf(), schema: { ...OPTIONS, color } };
    expect(shownOptions({}, offer)).toContain('color');
    expect(requestOf({ color: 'red' }, offer)).toEqual({ color: 'red' });
  });
});

describe('the request where only presets are allowed', () => {
  const gpus = [FREE, HELD];

  it('is that of the default options on the free GPUs, also if another notebook has reserved some', () => {
    const offer = offerOf(gpus, true);
    for (const spec of [DEFAULT, { ...DEFAULT, pool: 0.9 }]) {
      const values = initialValues(offer, spec);
      expect(toSpec(values, offer)).toEqual({ gpus: 'free' });
    }
    expect(shownOptions({}, offer)).toEqual(['preset']);
  });

  it('leaves out the GPUs if the default options choose them', () => {
    const one = offerOf(gpus, true, { ...DEFAULT, gpus: 1 });
    expect(requestOf({}, one)).toEqual({});
  });
});

describe('the line for a notebook', () => {
  const offer = offerOf([gpu(), gpu({ index: 1, uuid: 'GPU-1' })]);

  it.each<[SpecRequest, string | null]>([
    [{}, '%gpudask start'],
    [{ engine: 'cpu', workers: 2 }, '%gpudask start --engine cpu --cpu 2'],
    [{ gpus: '' }, null],
    [{ gpus: 'GPU-1' }, '%gpudask start --gpus 1,'],
    [{ gpus: 'GPU-0,GPU-1' }, '%gpudask start --gpus 0,1'],
    [
      { gpus: 'free', pool: '20 GB', spill_threshold: 0.5, share: true },
      '%gpudask start --gpus free --pool "20 GB" --spill-threshold 0.5 --share yes'
    ],
    [
      { adapt: '1,4', environment: ['A=1', 'B=two "words"'] },
      '%gpudask start --adapt 1,4 --environment A=1 --environment "B=two \\"words\\""'
    ],
    [{ preset: 'big' }, '%gpudask start --preset big']
  ])('has the options %j', (spec, line) => {
    expect(toMagic(spec, offer)).toBe(line);
  });
});
