import React, { useEffect, useRef, useState } from 'react';

interface ICardProps extends React.LiHTMLAttributes<HTMLLIElement> {
  /** When this changes, the card is rendered even if it is not visible. */
  version: string;
  children: React.ReactNode;
}

/** A list item that is rendered again only while it is visible. */
export function Card({ version, children, ...rest }: ICardProps): JSX.Element {
  const node = useRef<HTMLLIElement>(null);
  const isVisible = useIsVisible(node);
  const rendered = useRef({ version, children });
  if (isVisible || rendered.current.version !== version) {
    rendered.current = { version, children };
  }
  // React skips elements that are identical to the previous ones.
  return (
    <li ref={node} className="jp-GpuDask-card" {...rest}>
      {rendered.current.children}
    </li>
  );
}

function useIsVisible(node: React.RefObject<Element>): boolean {
  const [isVisible, setIsVisible] = useState(true);
  useEffect(() => {
    const observer = new IntersectionObserver(entries =>
      setIsVisible(entries[entries.length - 1].isIntersecting)
    );
    if (node.current) {
      observer.observe(node.current);
    }
    return () => observer.disconnect();
  }, []);
  return isVisible;
}
