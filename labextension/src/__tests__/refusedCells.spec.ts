import { isRefusedFirst } from '../notebook/actions';

it.each([
  ['%%gpudask\nx.compute()', true],
  ['%gpudask start --gpus all\nx.compute()', true],
  ['# Start\n\n%load_ext jupyter_gpudask\n%gpudask on\n', true],
  ['x.compute()', true],
  ['x = 1\n%gpudask start\nx.compute()', false],
  ['for x in y:\n    %gpudask start', false]
])('a cell is refused before its other code has run: %j', (source, isFirst) => {
  expect(isRefusedFirst(source)).toBe(isFirst);
});
