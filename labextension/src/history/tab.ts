/**
 * The tab with the history; loaded when it is first opened.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { historyIcon } from '@jupyterlab/ui-components';

import 'uplot/dist/uPlot.min.css';
import '../../style/history.css';

import { LiveWidget } from '../components/liveWidget';
import { Connection } from '../model/connection';
import { GpuDaskModel } from '../model/model';
import { RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';
import { createHistoryView, LONGEST_PAST } from './historyView';
import { Past } from './store';

/** The id of the tab in the shell, kept in saved layouts. */
export const HISTORY_ID = 'jupyter-gpudask-history';

/** Has a stream of its own, which goes back further than that of the panel. */
export class HistoryTab extends MainAreaWidget<LiveWidget> {
  constructor(gpuDask: IGpuDask, rest: RestClient) {
    const connection = new Connection(rest, Math.random, LONGEST_PAST);
    // The past has the metrics: the model need not keep them too.
    const model = new GpuDaskModel(connection, 1);
    const past = new Past(LONGEST_PAST);
    connection.received.connect((_, { history }) => past.take(history));
    const view = createHistoryView(past);
    super({ content: new LiveWidget({ ...gpuDask, model }, view) });
    this._model = model;
    this.id = HISTORY_ID;
    this.addClass('jp-GpuDask');
    this.addClass('jp-GpuDask-history');
    this.toolbar.hide();
    this.title.label = gpuDask.trans.__('GPU history');
    // Notebook 7's area below the notebook does not centre it.
    this.title.icon = historyIcon.bindprops({ stylesheet: 'mainAreaTab' });
    this.title.closable = true;
  }

  override dispose(): void {
    super.dispose();
    this._model.dispose();
  }

  private readonly _model: GpuDaskModel;
}
