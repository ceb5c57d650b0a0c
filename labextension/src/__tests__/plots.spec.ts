import { listPlots } from '../dashboard/layout';
import { RestClient } from '../model/rest';
import { IRequest, settingsOf } from './fakeServer';

const PLOTS = {
  'Individual Task Stream': '/individual-task-stream',
  'Individual Cpu': '/individual-cpu'
};

describe('the individual plots', () => {
  it('are those of the dashboard, sorted by title', async () => {
    const requests: IRequest[] = [];
    const settings = settingsOf(request => {
      requests.push(request);
      return new Response(JSON.stringify(PLOTS));
    });
    expect(await listPlots(new RestClient(settings), 'kernel-1')).toEqual([
      { title: 'CPU', path: '/individual-cpu' },
      { title: 'Task Stream', path: '/individual-task-stream' }
    ]);
    expect(requests[0].url).toBe(
      'http://server/user/ada/gpudask/dashboard/kernel-1/individual-plots.json'
    );
  });

  it('lead nowhere else, whatever the cluster of somebody else reports', async () => {
    const reported: { [title: string]: unknown } = {
      'Individual Task Stream': '/individual-task-stream',
      logout: '/../../logout',
      other: '//evil.example',
      query: '/lab?reset',
      dots: '/..',
      number: 3,
      ['long'.repeat(1000)]: '/individual-cpu'
    };
    const settings = settingsOf(() => new Response(JSON.stringify(reported)));
    expect(await listPlots(new RestClient(settings), 'kernel-1')).toEqual([
      { title: 'Task Stream', path: '/individual-task-stream' }
    ]);
    for (let number = 0; number < 1000; number++) {
      reported[`${number}`] = '/individual-cpu';
    }
    expect(await listPlots(new RestClient(settings), 'kernel-1')).toHaveLength(
      200
    );
  });
});
