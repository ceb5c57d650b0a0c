import { toPng } from '../history/export';

/** What is drawn: texts and charts with their places, and the size of the image. */
interface IDrawn {
  texts: { text: string; x: number }[];
  charts: number[][];
  width: number;
}

/** Each letter is 10 pixels wide. */
const widthOf = (text: string): number => 10 * text.length;

/** A chart at this place of the page. */
function plotAt(title: string, left: number, width: number) {
  const canvas = document.createElement('canvas');
  canvas.width = Math.floor(width);
  canvas.height = 100;
  canvas.getBoundingClientRect = () =>
    ({ left, top: 50, width, height: 100.4, bottom: 150.4 }) as DOMRect;
  return { title, canvas };
}

/** Draw charts; the canvas of the page is the only fake, because there is none without a browser. */
function draw(
  title: string,
  plots: ReturnType<typeof plotAt>[],
  names: string[] = []
): IDrawn {
  const drawn: IDrawn = { texts: [], charts: [], width: 0 };
  const context = {
    measureText: (text: string) => ({ width: widthOf(text) }),
    fillText: (text: string, x: number) => drawn.texts.push({ text, x }),
    drawImage: (_: unknown, ...place: number[]) => drawn.charts.push(place),
    ...Object.fromEntries(
      [
        'scale',
        'translate',
        'fillRect',
        'setLineDash',
        'beginPath',
        'moveTo',
        'lineTo',
        'stroke'
      ].map(name => [name, () => undefined])
    )
  };
  const { prototype } = HTMLCanvasElement;
  jest.spyOn(prototype, 'getContext').mockReturnValue(context as never);
  jest.spyOn(prototype, 'toBlob').mockImplementation(function (
    this: HTMLCanvasElement
  ) {
    drawn.width = this.width;
  });
  const style = { color: '--jp-brand-color1', dash: [] };
  void toPng({ title, plots, lines: names.map(name => ({ name, style })) });
  return drawn;
}

afterEach(() => jest.restoreAllMocks());

describe('the image of the history', () => {
  it('is wide enough for all texts, however narrow the charts are', () => {
    const title = 'GPU history: Nov 22, 2026, 10:24:05 – 10:39:05';
    const name = 'GPU 0 (a/notebook/with/a/long/name/analysis.ipynb)';
    const narrow = [plotAt('Workers: Tasks per second', 10, 60)];
    const drawn = draw(title, narrow, [name]);
    expect(drawn.texts.map(({ text }) => text)).toEqual([
      title,
      'Workers: Tasks per second',
      name
    ]);
    for (const { text, x } of drawn.texts) {
      expect(x + widthOf(text)).toBeLessThanOrEqual(drawn.width);
    }
  });

  it('has the charts at whole pixels in their own sizes', () => {
    const plots = [plotAt('A', 10.2, 200.5), plotAt('B', 230.6, 200.5)];
    expect(draw('GPU history', plots).charts).toEqual([
      [0, 40, 200, 100],
      [220, 40, 200, 100]
    ]);
  });
});
