/** The builder imports an SVG file as text, and the schemas as objects. */
declare module '*.svg' {
  const text: string;
  export default text;
}

declare module '*/schema/settings.json' {
  const schema: { properties: { [name: string]: { default: unknown } } };
  export default schema;
}
