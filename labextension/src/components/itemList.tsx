import React from 'react';

/** Items with commas between them; a line breaks between two items only. */
export function ItemList({ items }: { items: string[] }): JSX.Element {
  return (
    <>
      {items.map((item, index) => (
        <React.Fragment key={index}>
          {index > 0 && ' '}
          <span className="jp-GpuDask-item">
            {index < items.length - 1 ? `${item},` : item}
          </span>
        </React.Fragment>
      ))}
    </>
  );
}
