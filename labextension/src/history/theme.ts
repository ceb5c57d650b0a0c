import { useEffect, useState } from 'react';

const ATTRIBUTE = 'data-jp-theme-name';

/** The name of the theme, now and when it changes; canvases must be drawn anew then. */
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

/** What a variable of the theme is now. */
export function themeValue(variable: string): string {
  return getComputedStyle(document.body).getPropertyValue(variable).trim();
}
