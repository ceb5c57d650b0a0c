/**
 * What the user has chosen in the settings.
 */
import { PromiseDelegate } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import { Units } from '../format';

/** The properties of `schema/settings.json`. */
export interface ISettings {
  /** How many seconds lie between two drawings of the metrics. */
  refresh: number;
  units: Units;
  showGpus: boolean;
  showSparklines: boolean;
  showTemperature: boolean;
  showProcesses: boolean;
  showWorkers: boolean;
  showStatusBar: boolean;
  autostart: boolean;
  notifications: boolean;
}

/** As in the schema. */
const DEFAULTS: ISettings = {
  refresh: 1,
  units: 'GiB',
  showGpus: true,
  showSparklines: true,
  showTemperature: true,
  showProcesses: true,
  showWorkers: true,
  showStatusBar: true,
  autostart: false,
  notifications: true
};

/** What is needed of the registry's settings of a plugin. */
interface ISource {
  composite: object;
  changed: ISignal<unknown, void>;
}

/**
 * The settings, which are the defaults until a registry gives others.
 */
export class Settings {
  get value(): ISettings {
    return this._value;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Done when they are known. */
  get ready(): Promise<void> {
    return this._ready.promise;
  }

  /** Be as the registry says, now and whenever it changes. */
  follow(source: ISource): void {
    const take = (): void => {
      this._value = { ...DEFAULTS, ...source.composite };
      this._changed.emit();
    };
    source.changed.connect(take);
    take();
    this._ready.resolve();
  }

  private _changed = new Signal<this, void>(this);
  private _ready = new PromiseDelegate<void>();
  private _value = DEFAULTS;
}
