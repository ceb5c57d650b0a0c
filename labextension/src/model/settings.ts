/**
 * The user's settings.
 */
import { PromiseDelegate } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { Units } from '../format';

/** Where a plot is placed. */
export interface IPlotPlace {
  mode?:
    'tab-before' | 'tab-after' | `split-${'left' | 'right' | 'top' | 'bottom'}`;
  /** The name of the plot beside which it is placed; by default it is beside the notebook. */
  ref?: string | null;
}

/** The plots that are opened together, by their names. */
export interface ILayout {
  [plot: string]: IPlotPlace;
}

const LAYOUT: ILayout = {
  'task-stream': { mode: 'split-right' },
  progress: { mode: 'split-bottom', ref: 'task-stream' },
  'gpu-memory': { mode: 'split-bottom', ref: 'progress' }
};

/** The defaults of `schema/settings.json`, which describes each; the whole schema would be loaded with every page. */
const DEFAULTS = {
  refresh: 1,
  units: 'GiB' as Units,
  showGpus: true,
  showClusters: true,
  otherClusters: 'manage' as 'manage' | 'show' | 'hide',
  allowStart: true,
  allowStop: true,
  showSparklines: true,
  showTemperature: true,
  showProcesses: true,
  showWorkers: true,
  showStatusBar: true,
  hiddenCharts: [] as string[],
  autostart: false,
  notifications: true,
  defaultLayout: LAYOUT,
  // A list, because the form of the Settings Editor mixes up objects in objects.
  layouts: [] as { name: string; plots: ILayout }[]
};

export type ISettings = typeof DEFAULTS;

/** The part of `ISettingRegistry.ISettings` that is used. */
interface ISource {
  composite: object;
  changed: ISignal<unknown, void>;
  set?(key: string, value: string[]): Promise<void>;
}

/**
 * The current settings: the defaults until `follow` is called.
 */
export class Settings {
  /** Where the settings come from, and can be changed. */
  source?: ISource;

  value = DEFAULTS;

  readonly changed = new Signal<this, void>(this);

  /** Resolves when the settings are loaded. */
  get ready(): Promise<void> {
    return this._ready.promise;
  }

  /** Take the settings of the registry, now and when they change. */
  follow(source: ISource): void {
    this.source = source;
    const update = (): void => {
      this.value = { ...DEFAULTS, ...source.composite };
      this.changed.emit();
    };
    source.changed.connect(update);
    update();
    this._ready.resolve();
  }

  private _ready = new PromiseDelegate<void>();
}
