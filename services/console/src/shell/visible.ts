/**
 * Keeps the page as high as what a phone's keyboard leaves of the window, so that what is at its
 * bottom, such as the composer, stays in view.
 */
export function followKeyboard(): void {
  const viewport = window.visualViewport;
  if (!viewport) return;
  const root = document.documentElement;
  const fit = () => {
    // Zooming makes it smaller, too, but leaves the page as it is.
    const isCovered = viewport.scale === 1 && innerHeight - viewport.height > 80;
    root.toggleAttribute("data-keyboard", isCovered);
    root.style.setProperty("--visible", `${viewport.height}px`);
    if (isCovered) scrollTo(0, 0);
  };
  viewport.addEventListener("resize", fit);
  viewport.addEventListener("scroll", fit);
}
