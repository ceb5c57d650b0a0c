import React from 'react';

/** Code of a notebook cell within a sentence. */
const CODE = /(%pip install (?:"[^"]+"|[\w-]+)|%%?gpudask(?: [a-z]+)?)/;

/** A message in which code is shown as such. */
export function CodeText({ text }: { text: string }): JSX.Element {
  return (
    <>
      {text
        .split(CODE)
        .map((piece, index) =>
          index % 2 ? <code key={index}>{piece}</code> : piece
        )}
    </>
  );
}
