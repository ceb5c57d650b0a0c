/**
 * A tab that subscribes to the model, with its toolbar.
 */
import { MainAreaWidget } from '@jupyterlab/apputils';
import { LabIcon } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { TabPanel } from '@lumino/widgets';
import React from 'react';

import '../../style/views.css';
import '../../style/buttons.css';
import '../../style/tabs.css';

import { LiveWidget } from './liveWidget';

interface ILiveTabOptions {
  id: string;
  label: string;
  icon: LabIcon;
  className: string;
  content: LiveWidget;
}

/** A tab of the main area, or of the down area of Notebook 7. */
export class LiveTab extends MainAreaWidget<LiveWidget> {
  constructor({ id, label, icon, className, content }: ILiveTabOptions) {
    super({ content });
    this.id = id;
    ['jp-GpuDask', 'jp-GpuDask-tab', className].forEach(name =>
      this.addClass(name)
    );
    this.toolbar.hide();
    this.title.label = label;
    // The down area of Notebook 7 does not center the icon.
    this.title.icon = icon.bindprops({ stylesheet: 'mainAreaTab' });
    this.title.closable = true;
  }

  /** The shell of Notebook 7 activates a widget of its down area, but leaves another tab in front of it. */
  protected override onActivateRequest(message: Message): void {
    const tabs = this.parent?.parent;
    if (tabs instanceof TabPanel) {
      tabs.currentWidget = this;
    }
    super.onActivateRequest(message);
  }
}

interface ITabToolbarProps {
  label: string;
  children: React.ReactNode;
}

/** The toolbar of a tab, which stays at its top. */
export function TabToolbar({ label, children }: ITabToolbarProps): JSX.Element {
  return (
    <div className="jp-GpuDask-tabToolbar" role="toolbar" aria-label={label}>
      {children}
    </div>
  );
}

/** Download a file in the browser. */
export function download(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}
