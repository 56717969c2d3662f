import type { JSX } from "preact";
import { useRef } from "preact/hooks";

import type { Answers } from "../schema.ts";
import type { Answer } from "./live.ts";
import { Outcome, State, Text, Time, View } from "./parts.tsx";
import { encodePath, go, type Route } from "./route.ts";

type List = Answers["services" | "nodes" | "writes"];
type Row = Readonly<Record<string, string | number | undefined>>;

interface Column {
  readonly key: string;
  readonly title: string;
}

interface ListKind {
  readonly title: string;
  readonly columns: readonly Column[];
  /** The path of a row's own view. */
  readonly link?: (row: Row) => string;
}

const text = (row: Row, key: string): string => String(row[key] ?? "");

/** The lists, each as a row of this table. */
export const lists: Readonly<Record<string, ListKind>> = {
  services: {
    title: "Services",
    columns: [
      { key: "name", title: "Service" },
      { key: "namespace", title: "Namespace" },
      { key: "state", title: "State" },
      { key: "cause", title: "Cause" },
      { key: "addresses", title: "Addresses" },
      { key: "since", title: "Since" },
    ],
    link: (row) => encodePath("services", text(row, "namespace"), text(row, "name")),
  },
  nodes: {
    title: "Nodes",
    columns: [
      { key: "name", title: "Node" },
      { key: "state", title: "State" },
      { key: "zone", title: "Zone" },
      { key: "addresses", title: "Addresses" },
      { key: "cidrs", title: "Pod CIDRs" },
      { key: "routes", title: "Routes" },
      { key: "notInPool", title: "Not in a pool because" },
      { key: "providerID", title: "Provider ID" },
    ],
    link: (row) => encodePath("nodes", text(row, "name")),
  },
  writes: {
    title: "Writes",
    columns: [
      { key: "at", title: "When" },
      { key: "controller", title: "Controller" },
      { key: "operation", title: "Operation" },
      { key: "resource", title: "Resource" },
      { key: "outcome", title: "Outcome" },
      { key: "causes", title: "Because of" },
      { key: "changed", title: "Changed fields" },
      { key: "milliseconds", title: "Milliseconds" },
      { key: "correlationId", title: "Correlation ID" },
    ],
  },
};

/** Cells whose end says most: too long ones lose their beginning. */
const paths: ReadonlySet<string> = new Set(["resource", "providerID"]);

/** The start of a cause that is the same for many Services: the request to the cloud, the prefix of annotations. */
const request = /^failed to ensure load balancer: (?:\S+ [A-Z]+ \S+: |annotation service\.beta\.kubernetes\.io\/)?/u;

const rowHeight = 36;
const windowRows = 200;
const step = 50;

/** The query of the rows around the one at the top. */
export function windowQuery(query: URLSearchParams, top: number): string {
  const offset = Math.max(0, Math.floor(top / step) * step - step);
  const wanted = new URLSearchParams({ offset: `${offset}`, limit: `${windowRows}` });
  for (const name of ["filter", "sort"]) if (query.get(name)) wanted.set(name, query.get(name) ?? "");
  return wanted.toString();
}

/** A list of any length. Only the rows near the visible ones are on the page. */
export function ListView({
  name,
  kind,
  route,
  answer,
  scrolled,
}: {
  readonly name: string;
  readonly kind: ListKind;
  readonly route: Route;
  readonly answer: Answer<List>;
  readonly scrolled: (topRow: number) => void;
}): JSX.Element {
  const region = useRef<HTMLDivElement>(null);
  const sort = route.query.get("sort") ?? "";
  const show = (changes: Readonly<Record<string, string>>): void => {
    const query = new URLSearchParams(route.query);
    for (const [key, value] of Object.entries(changes)) {
      if (value === "") query.delete(key);
      else query.set(key, value);
    }
    region.current?.scrollTo({ top: 0 });
    scrolled(0);
    go(`/ui/${name}${query.size > 0 ? `?${query.toString()}` : ""}`, true);
  };
  const json = `/ui/${name}?${new URLSearchParams([...route.query, ["format", "json"]]).toString()}`;
  return (
    <View title={kind.title} json={json} answer={answer}>
      {(list) => (
        <>
          <div class="filter">
            <label for="filter">Filter</label>
            <input
              id="filter"
              type="search"
              value={route.query.get("filter") ?? ""}
              autocomplete="off"
              onInput={({ currentTarget: { value } }) => show({ filter: value })}
            />
            <span role="status">
              {list.matching} of {list.total}
            </span>
            {Object.entries(list.counts).map(([state, count]) => (
              <button type="button" key={state} onClick={() => show({ filter: `state:${state}` })}>
                <State value={state} /> {count}
              </button>
            ))}
          </div>
          {!list.available && (
            <p class="notice">Nothing in this replica watches them: no enabled controller needs them.</p>
          )}
          {list.available && list.matching === 0 && (
            <p>{list.total === 0 ? `No ${name} yet.` : `The filter matches none of the ${name}.`}</p>
          )}
          <div
            class="scroll tall"
            role="region"
            aria-label={kind.title}
            tabIndex={0}
            ref={region}
            onScroll={({ currentTarget: { scrollTop } }) => scrolled(Math.floor(scrollTop / rowHeight))}
          >
            <Rows list={list} kind={kind} sort={sort} sortBy={(key) => show({ sort: key })} />
          </div>
        </>
      )}
    </View>
  );
}

function Rows({
  list,
  kind: { title, columns, link },
  sort,
  sortBy,
}: {
  readonly list: List;
  readonly kind: ListKind;
  readonly sort: string;
  readonly sortBy: (key: string) => void;
}): JSX.Element {
  const { matching, offset, rows } = list;
  const after = Math.max(0, matching - offset - rows.length);
  return (
    <table class="fixed" aria-label={title} aria-rowcount={matching + 1}>
      <thead>
        <tr aria-rowindex={1}>
          {columns.map(({ key, title: heading }) => {
            const [isSorted, isDescending] = [sort.replace(/^-/u, "") === key, sort.startsWith("-")];
            const direction = isSorted ? (isDescending ? "descending" : "ascending") : "none";
            return (
              <th scope="col" key={key} aria-sort={direction}>
                <button type="button" onClick={() => sortBy(isSorted && !isDescending ? `-${key}` : key)}>
                  {heading} <span aria-hidden="true">{isSorted ? (isDescending ? "▼" : "▲") : ""}</span>
                </button>
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>
        <Space rows={offset} columns={columns.length} />
        {rows.map((row: Row, index) => (
          <tr key={offset + index} aria-rowindex={offset + index + 2}>
            {columns.map(({ key }, column) => (
              <td key={key} class={paths.has(key) ? "path" : undefined} title={text(row, key)}>
                {column === 0 && link ? <a href={link(row)}>{text(row, key)}</a> : cell(row, key)}
              </td>
            ))}
          </tr>
        ))}
        <Space rows={after} columns={columns.length} />
      </tbody>
    </table>
  );
}

/** Space in place of the rows that are not on the page. */
const Space = ({ rows, columns }: { readonly rows: number; readonly columns: number }): JSX.Element | null =>
  rows === 0 ? null : (
    <tr aria-hidden="true" class="space">
      <td colSpan={columns} style={{ height: `${rows * rowHeight}px` }} />
    </tr>
  );

function cell(row: Row, key: string): JSX.Element {
  const value = text(row, key);
  if (key === "state") return <State value={value} />;
  if ((key === "since" || key === "at") && value !== "") return <Time at={value} />;
  if (key === "cause") return <Text>{value.replace(request, "")}</Text>;
  if (key === "outcome") return <Outcome outcome={value} resource={text(row, "resource")} />;
  return <Text>{value}</Text>;
}
