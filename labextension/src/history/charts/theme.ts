import { useEffect, useState } from 'react';

const ATTRIBUTE = 'data-jp-theme-name';

/** The name of the theme; canvases must be drawn again when it changes. */
export function useThemeName(): string | null {
  const [name, setName] = useState(document.body.getAttribute(ATTRIBUTE));
  useEffect(() => {
    const observer = new MutationObserver(() =>
      setName(document.body.getAttribute(ATTRIBUTE))
    );
    observer.observe(document.body, { attributeFilter: [ATTRIBUTE] });
    return () => observer.disconnect();
  }, []);
  return name;
}

/** The current value of a CSS variable of the theme. */
export function themeValue(variable: string): string {
  return getComputedStyle(document.body).getPropertyValue(variable).trim();
}
