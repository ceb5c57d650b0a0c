/** A time range, in seconds since the epoch. */
export interface IRange {
  min: number;
  max: number;
}
