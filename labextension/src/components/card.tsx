import React, { useEffect, useRef, useState } from 'react';

interface ICardProps extends React.LiHTMLAttributes<HTMLLIElement> {
  /** When this changes the card is drawn anew, also out of sight. */
  version: string;
  children: React.ReactNode;
}

/** An item of a list that follows its metrics only while it can be seen. */
export function Card({ version, children, ...rest }: ICardProps): JSX.Element {
  const node = useRef<HTMLLIElement>(null);
  const isSeen = useIsSeen(node);
  const drawn = useRef({ version, children });
  if (isSeen || drawn.current.version !== version) {
    drawn.current = { version, children };
  }
  // React does nothing where it gets the very same elements again.
  return (
    <li ref={node} className="jp-GpuDask-card" {...rest}>
      {drawn.current.children}
    </li>
  );
}

function useIsSeen(node: React.RefObject<Element>): boolean {
  const [isSeen, setIsSeen] = useState(true);
  useEffect(() => {
    const observer = new IntersectionObserver(entries =>
      setIsSeen(entries[entries.length - 1].isIntersecting)
    );
    if (node.current) {
      observer.observe(node.current);
    }
    return () => observer.disconnect();
  }, []);
  return isSeen;
}
