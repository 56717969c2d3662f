import type { JSX } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";

import type { Source } from "../schema.ts";
import { lists, ListView, windowQuery } from "./list.tsx";
import { type Connection, useAnswer, useConnection } from "./live.ts";
import { Time } from "./parts.tsx";
import { PlanView } from "./plan.tsx";
import { type Route, useRoute } from "./route.ts";
import { RunbookView } from "./runbook.tsx";
import { CloudView, Controllers, Leadership, ObjectDetails, Overview } from "./views.tsx";

interface Tab {
  readonly name: string;
  readonly title: string;
  /** A change of these makes the view read again. */
  readonly sources: readonly Source[];
}

const tabs: readonly Tab[] = [
  { name: "overview", title: "Overview", sources: ["status", "services", "nodes", "writes"] },
  { name: "leadership", title: "Leadership", sources: ["status", "events"] },
  { name: "controllers", title: "Controllers", sources: ["status", "tick"] },
  { name: "services", title: "Services", sources: ["services"] },
  { name: "nodes", title: "Nodes", sources: ["nodes"] },
  { name: "cloud", title: "Cloud", sources: ["status", "writes", "tick"] },
  { name: "writes", title: "Writes", sources: ["writes"] },
  { name: "plan", title: "Plan", sources: ["plan"] },
  { name: "runbook", title: "Runbook", sources: [] },
];

export function App(): JSX.Element {
  const route = useRoute();
  const connection = useConnection();
  const main = useRef<HTMLElement>(null);
  const [name = ""] = route.path;
  const place = route.path.join("/");
  const tab = tabs.find((each) => each.name === name);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${route.path.length > 1 ? route.path.slice(1).join("/") : (tab?.title ?? "Not found")} · cloud-controller-host`;
    // A reader of the screen learns that the view is another one.
    if (!first.current) main.current?.querySelector<HTMLElement>("h1")?.focus();
    first.current = false;
  }, [place]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header>
        <span class="product">cloud-controller-host</span>
        <nav aria-label="Views">
          {tabs.map((each) => (
            <a href={`/ui/${each.name}`} key={each.name} aria-current={each.name === name ? "page" : undefined}>
              {each.title}
            </a>
          ))}
        </nav>
        <Live connection={connection} />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {tab === undefined ? (
          <>
            <h1 tabIndex={-1}>Unknown view</h1>
            <p>The views that exist are named above.</p>
          </>
        ) : (
          <Content key={place} tab={tab} route={route} connection={connection} />
        )}
      </main>
    </>
  );
}

const words: Readonly<Record<Connection["state"], string>> = {
  connecting: "Connecting",
  live: "Live",
  cut: "Disconnected; connecting again",
  polling: "Not live; read every 10 seconds",
};

const Live = ({ connection: { state, since, identity } }: { readonly connection: Connection }): JSX.Element => (
  <p class={`live ${state}`} role="status">
    <span aria-hidden="true">{state === "live" ? "●" : "○"}</span> {words[state]}
    {state === "cut" && (
      <>
        {" since "}
        <Time at={new Date(since).toISOString()} />
      </>
    )}
    {identity !== "" && <span class="quiet"> · {identity}</span>}
  </p>
);

interface ContentProps {
  readonly tab: Tab;
  readonly route: Route;
  readonly connection: Connection;
}

function Content(props: ContentProps): JSX.Element {
  const { tab, route, connection } = props;
  const [failure, retry] = useErrorBoundary();
  // A failure that is not drawn yet stays: taken back, the view would fail again, outside of the boundary.
  useEffect(() => {
    if (failure !== undefined) retry();
  }, [connection.identity]);
  if (failure !== undefined)
    return (
      <p class="notice" role="alert">
        The page cannot show the host's answer, which may be of another version: load the page again.
      </p>
    );
  const kind = Object.hasOwn(lists, tab.name) ? lists[tab.name] : undefined;
  if (kind !== undefined && route.path.length === 1) return <ListContent {...props} kind={kind} />;
  if (kind !== undefined) return <ObjectContent path={route.path} connection={connection} />;
  return <PlainContent {...props} />;
}

function ListContent({ tab, route, connection, kind }: ContentProps & { readonly kind: (typeof lists)[string] }) {
  const [top, setTop] = useState(0);
  const path = `${tab.name}?${windowQuery(route.query, top)}`;
  return (
    <ListView
      name={tab.name}
      kind={kind}
      route={route}
      scrolled={setTop}
      answer={useAnswer(path, tab.sources, connection)}
    />
  );
}

function ObjectContent({ path, connection }: { readonly path: readonly string[]; readonly connection: Connection }) {
  const encoded = path.map(encodeURIComponent).join("/");
  const list: Source = path[0] === "nodes" ? "nodes" : "services";
  return <ObjectDetails path={encoded} answer={useAnswer(encoded, [list, "writes", "events"], connection)} />;
}

function PlainContent({ tab: { name, sources }, route, connection }: ContentProps): JSX.Element {
  if (name === "leadership") return <Leadership answer={useAnswer(name, sources, connection)} />;
  if (name === "controllers") return <Controllers answer={useAnswer(name, sources, connection)} />;
  if (name === "runbook") {
    const query = route.query.toString();
    return <RunbookView query={query} answer={useAnswer(`runbook?${query}`, sources, connection)} />;
  }
  if (name === "plan") return <PlanView answer={useAnswer(name, sources, connection)} />;
  if (name === "cloud") return <CloudView answer={useAnswer(name, sources, connection)} />;
  return <Overview answer={useAnswer("overview", sources, connection)} />;
}
