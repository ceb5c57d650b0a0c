/**
 * The dialog that changes the number of workers, or lets it follow the work.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import type { RJSFSchema } from '@rjsf/utils';
import React from 'react';

import { ICluster, isShared } from '../model/api';
import { SchemaForm } from './schemaForm';
import { IFormProps, SubmitDialog } from './submitDialog';

/** The largest number of workers of a cluster that has no GPUs of this machine. */
const MAX_WORKERS = 256;

const NUMBER = { 'ui:options': { inputType: 'number' } };

interface IScaleOptions {
  cluster: ICluster;
  trans: TranslationBundle;
  /** Carry out `scale` or `adapt` with its numbers; rejects if the server refuses them. */
  submit: (verb: string, numbers: object) => Promise<void>;
}

/** Create the dialog. */
export function scaleDialog(options: IScaleOptions): SubmitDialog {
  const { cluster, trans, submit } = options;
  const { state, gpus } = cluster;
  const workers = state?.workers.length ?? 1;
  const range = state?.adaptive_range ?? [1, gpus.length || workers];
  // On GPUs of this machine, there is one worker for each that the cluster has.
  const most = gpus.length || MAX_WORKERS;
  const parse = (text: unknown, min = 1): number => {
    const number = Number(text);
    if (!Number.isInteger(number) || number < min || number > most) {
      throw new Error(
        trans.__('Enter a whole number from %1 to %2.', min, most)
      );
    }
    return number;
  };
  return new SubmitDialog({
    title: isShared(cluster.kernel_id)
      ? trans.__('Scale %1', cluster.name)
      : trans.__('Scale the cluster of %1', cluster.name),
    values: {
      workers: `${workers}`,
      minimum: `${range[0]}`,
      maximum: `${range[1]}`,
      isAdaptive: Boolean(state?.adaptive_range)
    },
    render: props => <ScaleForm {...props} {...{ cluster, most, trans }} />,
    submitLabel: trans.__('Scale'),
    trans,
    submit: async ({ isAdaptive, ...values }) => {
      if (!isAdaptive) {
        return submit('scale', { workers: parse(values.workers) });
      }
      const minimum = parse(values.minimum);
      const maximum = parse(values.maximum, minimum);
      return submit('adapt', { minimum, maximum });
    }
  });
}

interface IScaleFormProps extends IFormProps {
  cluster: ICluster;
  /** The largest number of workers. */
  most: number;
  trans: TranslationBundle;
}

function ScaleForm(props: IScaleFormProps): JSX.Element {
  const { cluster, most, trans, ...form } = props;
  const fields: { [name: string]: RJSFSchema } = form.values.isAdaptive
    ? {
        minimum: { title: trans.__('Fewest workers'), type: 'string' },
        maximum: { title: trans.__('Most workers'), type: 'string' }
      }
    : { workers: { title: trans.__('Workers'), type: 'string' } };
  fields.isAdaptive = {
    title: trans.__('Adaptive'),
    description: trans.__('Close idle workers, and start them for work'),
    type: 'boolean'
  };
  const hint =
    cluster.gpus.length > 0
      ? trans._n(
          'The cluster has %1 GPU, and each worker needs one. To use more, stop it and start it with options.',
          'From 1 to %1, the number of GPUs that the cluster has. To use more, stop it and start it with options.',
          most
        )
      : trans.__('From 1 to %1.', most);
  return (
    <div className="jp-GpuDask-form">
      <p className="jp-GpuDask-secondary">{hint}</p>
      <SchemaForm
        {...form}
        fields={fields}
        uiSchema={{ workers: NUMBER, minimum: NUMBER, maximum: NUMBER }}
      />
    </div>
  );
}
