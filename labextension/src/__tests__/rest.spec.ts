import { ResponseError, RestClient } from '../model/rest';
import { cluster, IRequest, settingsOf } from './fakeServer';

let requests: IRequest[];

function clientThatGets(body: unknown, status = 200): RestClient {
  requests = [];
  return new RestClient(
    settingsOf(request => {
      requests.push(request);
      return new Response(status === 204 ? null : JSON.stringify(body), {
        status
      });
    })
  );
}

const CLUSTERS = 'http://server/user/ada/gpudask/api/clusters';

describe('the REST client', () => {
  it('starts a cluster', async () => {
    const ordered = await clientThatGets(cluster(), 202).create('kernel-1', {
      gpus: 'free'
    });
    expect(ordered).toEqual(cluster());
    expect(requests).toEqual([
      {
        method: 'POST',
        url: CLUSTERS,
        body: { kernel_id: 'kernel-1', spec: { gpus: 'free' } }
      }
    ]);
  });

  it('stops, restarts and scales a cluster, and reads its logs', async () => {
    const client = clientThatGets(null, 204);
    await client.stop('a/b');
    expect(requests.map(each => `${each.method} ${each.url}`)).toEqual([
      `DELETE ${CLUSTERS}/a%2Fb`
    ]);

    await clientThatGets(cluster()).act('k', 'restart', { spec: {} });
    expect(requests[0]).toMatchObject({
      url: `${CLUSTERS}/k/restart`,
      body: { spec: {} }
    });
    await clientThatGets(cluster()).act('k', 'scale', { workers: 3 });
    expect(requests[0]).toMatchObject({
      url: `${CLUSTERS}/k/scale`,
      body: { workers: 3 }
    });
    const logs = { supervisor: 'text' };
    expect(await clientThatGets({ logs }).logs('k')).toEqual(logs);
  });

  it('throws an error with the field and the fix of a refused request', async () => {
    const problem = {
      message: 'No.',
      fix: 'Do this.',
      kind: 'SpecError',
      field: 'pool'
    };
    const refusal = clientThatGets(problem, 422).create('k', { pool: 'much' });
    await expect(refusal).rejects.toBeInstanceOf(ResponseError);
    await expect(refusal).rejects.toMatchObject({ status: 422, problem });
  });
});
