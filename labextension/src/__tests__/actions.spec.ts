import {
  acceptDialog,
  dismissDialog,
  waitForDialog
} from '@jupyterlab/testing';
import { nullTranslator } from '@jupyterlab/translation';

import { ClusterActions } from '../actions';
import { ICluster } from '../model/api';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { cluster, FakeSocket, IRequest, settingsOf } from './fakeServer';

let model: GpuDaskModel;
let requests: string[];

/** Actions on a server whose cluster is so now. */
function actionsOn(reply: (request: IRequest) => Response): ClusterActions {
  const rest = new RestClient(
    settingsOf(request => {
      requests.push(request.method);
      return reply(request);
    })
  );
  model = new GpuDaskModel(new Connection(rest));
  return new ClusterActions(
    model,
    rest,
    nullTranslator.load('jupyter_gpudask')
  );
}

const state = (tasks: number) =>
  ({
    state: { ...cluster().state, workers: [], tasks_unfinished: tasks }
  }) as unknown as Partial<ICluster>;

const says = (tasks: number) => (request: IRequest) =>
  request.method === 'GET'
    ? new Response(JSON.stringify(cluster(state(tasks))))
    : new Response(null, { status: 204 });

beforeEach(() => {
  FakeSocket.all = [];
  requests = [];
});

afterEach(() => model.dispose());

describe('a cluster that is stopped', () => {
  it('has work that the browser has not heard of yet: asks', async () => {
    const stopping = actionsOn(says(3)).stop(cluster(state(0)));
    await waitForDialog();
    expect(document.body.textContent).toContain('3 tasks are not done');
    await dismissDialog();
    await stopping;
    expect(requests).toEqual(['GET']);
  });

  it('has done its work meanwhile: does not ask', async () => {
    await actionsOn(says(0)).stop(cluster(state(3)));
    expect(requests).toEqual(['GET', 'DELETE']);
  });

  it('does not say what it does: asks by what was heard last', async () => {
    const refuse = (request: IRequest) =>
      request.method === 'GET'
        ? new Response('{"message": "no"}', { status: 409 })
        : new Response(null, { status: 204 });
    const stopping = actionsOn(refuse).stop(cluster(state(3)));
    await waitForDialog();
    await acceptDialog();
    await stopping;
    expect(requests).toEqual(['GET', 'DELETE']);
  });

  it('is not ready: is not asked', async () => {
    await actionsOn(says(3)).stop(cluster({ ...state(0), status: 'starting' }));
    expect(requests).toEqual(['DELETE']);
  });
});
