import React from 'react';

/** What is typed in a cell, in the middle of a sentence. */
const CODE = /(%pip install (?:"[^"]+"|[\w-]+)|%%?gpudask(?: [a-z]+)?)/;

/** A sentence, with what is to be typed as code. */
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
