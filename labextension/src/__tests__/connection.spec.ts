import { Connection, ConnectionStatus } from '../model/connection';
import { RestClient } from '../model/rest';
import { FakeSocket, settingsOf } from './fakeServer';

let answer: () => Response;
let connection: Connection;

const unreachable = (): Response => {
  throw new TypeError('Failed to fetch');
};

beforeEach(() => {
  jest.useFakeTimers();
  FakeSocket.all = [];
  answer = unreachable;
  const rest = new RestClient(settingsOf(() => answer()));
  connection = new Connection(rest, () => 1);
});

afterEach(() => {
  connection.dispose();
  jest.useRealTimers();
});

/** Break the line and let the connection find out why. */
async function lose(): Promise<ConnectionStatus> {
  FakeSocket.last.break();
  await jest.advanceTimersByTimeAsync(0);
  return connection.status;
}

function wait(status: ConnectionStatus): number | null {
  return status.kind === 'lost' ? status.retryAt - Date.now() : null;
}

describe('the connection', () => {
  it('requests the last minute below the base URL, with the token', () => {
    connection.open();
    const url = new URL(FakeSocket.last.url);
    expect(url.pathname).toBe('/user/ada/gpudask/api/stream');
    expect(url.searchParams.get('token')).toBe('secret');
    const since = Number(url.searchParams.get('since'));
    expect(Date.now() / 1000 - since).toBeCloseTo(60, 1);
  });

  it('is live after the first message', () => {
    const kinds: string[] = [];
    connection.statusChanged.connect((_, status) => kinds.push(status.kind));
    connection.open();
    FakeSocket.last.send({});
    FakeSocket.last.send({});
    expect(kinds).toEqual(['connecting', 'live']);
  });

  it('doubles the delay after each failure, up to 30 seconds', async () => {
    connection.open();
    const waits: (number | null)[] = [];
    for (let tries = 0; tries < 7; tries += 1) {
      const status = await lose();
      waits.push(wait(status));
      await jest.advanceTimersByTimeAsync(wait(status) ?? 0);
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    expect(FakeSocket.all).toHaveLength(8);
  });

  it('reconnects at once on request, and has a short delay afterwards', async () => {
    connection.open();
    await jest.advanceTimersByTimeAsync(wait(await lose()) ?? 0);
    expect(wait(await lose())).toBe(2000);
    const before = FakeSocket.all.length;
    connection.retry();
    expect(FakeSocket.all).toHaveLength(before + 1);
    expect(wait(await lose())).toBe(1000);
  });

  it('starts again with a short delay after it was live', async () => {
    connection.open();
    await jest.advanceTimersByTimeAsync(wait(await lose()) ?? 0);
    FakeSocket.last.send({});
    expect(wait(await lose())).toBe(1000);
  });

  it('requests only the missed metrics when it reconnects', async () => {
    connection.open();
    FakeSocket.last.send({ time: 1234.5 });
    await jest.advanceTimersByTimeAsync(wait(await lose()) ?? 0);
    expect(FakeSocket.last.url).toContain('since=1234.5');
  });

  it('is silent five seconds after the last message, and stale until the next one', async () => {
    connection.open();
    FakeSocket.last.send({});
    const heardAt = Date.now();
    await jest.advanceTimersByTimeAsync(4900);
    FakeSocket.last.send({});
    await jest.advanceTimersByTimeAsync(4900);
    expect(connection.isStale).toBe(false);
    await jest.advanceTimersByTimeAsync(200);
    expect(connection.status).toEqual({
      kind: 'silent',
      since: heardAt + 4900
    });
    expect(connection.isStale).toBe(true);
    FakeSocket.last.send({});
    expect(connection.status.kind).toBe('live');
    expect(connection.isStale).toBe(false);
  });

  it('connects again after a long silence, and stays silent until it hears something', async () => {
    connection.open();
    FakeSocket.last.send({});
    await jest.advanceTimersByTimeAsync(31000);
    expect(FakeSocket.all).toHaveLength(2);
    expect(connection.status.kind).toBe('silent');
    await jest.advanceTimersByTimeAsync(30000);
    expect(FakeSocket.all).toHaveLength(3);
    FakeSocket.last.send({});
    expect(connection.status.kind).toBe('live');
  });

  it('reports a missing extension after a response with status 404', async () => {
    answer = () => new Response('', { status: 404 });
    connection.open();
    expect(await lose()).toEqual({ kind: 'no-server' });
    await jest.advanceTimersByTimeAsync(60000);
    expect(FakeSocket.all).toHaveLength(1);
    connection.retry();
    expect(FakeSocket.all).toHaveLength(2);
  });

  it('reports a refusal after a response with status 403', async () => {
    answer = () => new Response('{}', { status: 403 });
    connection.open();
    expect(await lose()).toEqual({ kind: 'refused' });
  });

  it('does not retry after it was closed', async () => {
    connection.open();
    await lose();
    connection.close();
    await jest.advanceTimersByTimeAsync(60000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(FakeSocket.last.isClosed).toBe(true);
    expect(connection.status).toEqual({ kind: 'closed' });
  });

  it('stays closed if it is closed while it finds the reason of a loss', async () => {
    connection.open();
    FakeSocket.last.break();
    connection.close();
    await jest.advanceTimersByTimeAsync(60000);
    expect(connection.status).toEqual({ kind: 'closed' });
    expect(FakeSocket.all).toHaveLength(1);
  });
});
