/**
 * @packageDocumentation
 * @module jupyter-gpudask
 */
export { CommandIDs } from './commandIDs';
export { default } from './plugins';
