import { useEffect, useState } from "preact/hooks";

/** Address of the page: the segments below `/ui/`, and the query. */
export interface Route {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

const moved = "console-moved";

function currentRoute(): Route {
  const path = location.pathname.split("/").slice(2).filter(Boolean).map(decodeURIComponent);
  return { path: path.length === 0 ? ["overview"] : path, query: new URLSearchParams(location.search) };
}

/** Goes to another view; `replace` keeps the history as it is, for a filter that is being typed. */
export function go(url: string, replace = false): void {
  if (replace) history.replaceState(undefined, "", url);
  else history.pushState(undefined, "", url);
  dispatchEvent(new Event(moved));
}

/** The route, and links within the page that are followed without loading it again. */
export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const update = (): void => setRoute(currentRoute());
    addEventListener("popstate", update);
    addEventListener(moved, update);
    document.addEventListener("click", follow);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(moved, update);
      document.removeEventListener("click", follow);
    };
  }, []);
  return route;
}

function follow(event: MouseEvent): void {
  const { target, defaultPrevented, button, metaKey, ctrlKey, shiftKey, altKey } = event;
  if (defaultPrevented || button !== 0 || metaKey || ctrlKey || shiftKey || altKey) return;
  const link = target instanceof Element ? target.closest("a") : null;
  if (link === null || link.origin !== location.origin || !link.pathname.startsWith("/ui/")) return;
  if (link.hash !== "" || new URLSearchParams(link.search).has("format")) return;
  event.preventDefault();
  go(link.href);
}

export const encodePath = (...parts: readonly string[]): string => `/ui/${parts.map(encodeURIComponent).join("/")}`;
