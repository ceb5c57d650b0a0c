/**
 * The user's settings.
 */
import { PromiseDelegate } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import schema from '../../schema/settings.json';
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

/** The properties of `schema/settings.json`. */
export interface ISettings {
  /** The seconds between two updates of the metrics in the views. */
  refresh: number;
  units: Units;
  showGpus: boolean;
  showClusters: boolean;
  /** Whether clusters of other notebooks are hidden, shown, or also managed. */
  otherClusters: 'manage' | 'show' | 'hide';
  /** Whether the commands that start, and that stop or change, clusters are offered. */
  allowStart: boolean;
  allowStop: boolean;
  showSparklines: boolean;
  showTemperature: boolean;
  showProcesses: boolean;
  showWorkers: boolean;
  showStatusBar: boolean;
  /** The charts that the history does not show, by group and metric: "gpus-busy". */
  hiddenCharts: string[];
  autostart: boolean;
  notifications: boolean;
  /** The plots that are opened beside a notebook, and are listed first. */
  defaultLayout: ILayout;
  /** Other layouts; a list, because the form of the Settings Editor mixes up objects in objects. */
  layouts: { name: string; plots: ILayout }[];
}

/** The defaults of the schema. */
const DEFAULTS = Object.fromEntries(
  Object.entries(schema.properties).map(([name, each]) => [name, each.default])
) as unknown as ISettings;

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

  get value(): ISettings {
    return this._value;
  }

  readonly changed = new Signal<this, void>(this);

  /** Resolves when the settings are loaded. */
  get ready(): Promise<void> {
    return this._ready.promise;
  }

  /** Take the settings of the registry, now and when they change. */
  follow(source: ISource): void {
    this.source = source;
    const update = (): void => {
      this._value = { ...DEFAULTS, ...source.composite };
      this.changed.emit();
    };
    source.changed.connect(update);
    update();
    this._ready.resolve();
  }

  private _ready = new PromiseDelegate<void>();
  private _value = DEFAULTS;
}
