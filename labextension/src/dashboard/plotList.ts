/**
 * The individual plots of a cluster's dashboard.
 */
import { RestClient } from '../model/rest';
import { dashboardUrl, IPlot } from './dashboard';

/** More than Dask has. */
const MAX_PLOTS = 200;
const MAX_TITLE = 100;

/** List the individual plots of the cluster of a kernel, sorted by title. */
export async function listPlots(
  rest: RestClient,
  kernelId: string
): Promise<IPlot[]> {
  const url = dashboardUrl(
    rest.settings.baseUrl,
    kernelId,
    'individual-plots.json'
  );
  const paths: { [title: string]: unknown } = await (
    await rest.fetch(url)
  ).json();
  return Object.entries(paths)
    .filter(isPlot)
    .slice(0, MAX_PLOTS)
    .map(([title, path]) => ({
      title: title
        .replace(/^Individual /, '')
        .replace(/\b(Cpu|Gpu|Rmm)\b/g, word => word.toUpperCase()),
      path
    }))
    .sort((one, other) => one.title.localeCompare(other.title));
}

/** Whether a title and a path are of a plot: what a cluster of somebody else reports leads nowhere else. */
function isPlot(entry: [string, unknown]): entry is [string, string] {
  const [title, path] = entry;
  return (
    title.length <= MAX_TITLE &&
    typeof path === 'string' &&
    /^\/[\w-]{1,100}$/.test(path)
  );
}
