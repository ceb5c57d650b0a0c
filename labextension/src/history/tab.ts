/**
 * The tab with the history, loaded when it is first opened.
 */
import 'uplot/dist/uPlot.min.css';
import '../../style/history.css';

import { LiveTab } from '../components/liveTab';
import { LiveWidget } from '../components/liveWidget';
import { historyIcon } from '../icons';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { IGpuDask } from '../tokens';
import { createHistoryView, HISTORY_SECONDS } from './historyView';
import { HistoryStore } from './store';

/** The widget id of the tab, kept in saved layouts. */
export const HISTORY_ID = 'jupyter-gpudask-history';

/** A tab with a stream of its own, because it requests more past metrics than the panel. */
export class HistoryTab extends LiveTab {
  constructor(gpuDask: IGpuDask) {
    const { rest } = gpuDask;
    const connection = new Connection(rest, Math.random, HISTORY_SECONDS);
    // The store keeps the metrics, so that the model need not.
    const model = new GpuDaskModel(connection, 1, gpuDask.model.settings);
    const store = new HistoryStore(HISTORY_SECONDS);
    connection.received.connect((_, { history }) => store.add(history));
    // A cluster has the color that it has in the panel.
    model.numberOf = kernelId => gpuDask.model.numberOf(kernelId);
    const view = createHistoryView(store);
    super({
      id: HISTORY_ID,
      label: gpuDask.trans.__('GPU history'),
      icon: historyIcon,
      className: 'jp-GpuDask-history',
      content: new LiveWidget({ ...gpuDask, model }, view)
    });
    this._model = model;
  }

  override dispose(): void {
    super.dispose();
    this._model.dispose();
  }

  private readonly _model: GpuDaskModel;
}
