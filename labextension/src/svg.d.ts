/** The builder turns an imported SVG file into its text. */
declare module '*.svg' {
  const text: string;
  export default text;
}
