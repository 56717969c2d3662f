import type { ComponentChildren, JSX } from "preact";

import type { ConsoleEvent, Section, WriteRow } from "../schema.ts";
import type { Answer } from "./live.ts";

const absolute = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const units = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
] as const;

function ago(ms: number): string {
  const seconds = Math.round((ms - Date.now()) / 1000);
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? (["second", 1] as const);
  return relative.format(Math.trunc(seconds / size), unit);
}

/** Local time, and how long ago. */
export function Time({ at }: { readonly at: string | undefined }): JSX.Element {
  const ms = Date.parse(at ?? "");
  if (at === undefined || Number.isNaN(ms)) return <span>unknown</span>;
  return (
    <time dateTime={at} title={at}>
      {absolute.format(ms)} <span class="quiet">({ago(ms)})</span>
    </time>
  );
}

/** The sign before a state: its color is never the only one. */
const signs: Readonly<Record<string, readonly [sign: string, tone: string]>> = {
  critical: ["✖", "bad"],
  failing: ["✖", "bad"],
  failed: ["✖", "bad"],
  warning: ["▲", "warn"],
  waiting: ["▲", "warn"],
  deleting: ["▲", "warn"],
  uninitialized: ["▲", "warn"],
  "not ready": ["▲", "warn"],
  "shut down": ["▲", "warn"],
  Warning: ["▲", "warn"],
  delete: ["−", "bad"],
  change: ["~", "warn"],
  create: ["+", "good"],
  refused: ["✖", "bad"],
  reloaded: ["✔", "good"],
  ready: ["✔", "good"],
  running: ["✔", "good"],
  done: ["✔", "good"],
};

export function State({ value }: { readonly value: string }): JSX.Element {
  const [sign, tone] = signs[value] ?? ["●", "quiet"];
  return (
    <span class={`state ${tone}`}>
      <span aria-hidden="true">{sign}</span> {value}
    </span>
  );
}

/** A text of a tenant: its direction does not reach what is beside it. */
export const Text = ({ children }: { readonly children: string }): JSX.Element => <bdi>{children}</bdi>;

export const sentence = (text: string): string => (/[.…?!]$/u.test(text) ? text : `${text}.`);

/** A view with its heading, the link to its JSON, and what is wrong with its data. */
export function View<T>({
  title,
  json,
  answer,
  children,
}: {
  readonly title: string;
  readonly json: string;
  readonly answer: Answer<T>;
  readonly children: (data: T) => ComponentChildren;
}): JSX.Element {
  const { data, failure, at } = answer;
  return (
    <>
      <div class="heading">
        <h1 tabIndex={-1}>
          <Text>{title}</Text>
        </h1>
        <a href={json}>JSON</a>
      </div>
      {failure !== undefined && (
        <p class="notice" role="alert">
          <Text>{sentence(failure)}</Text> The page asks again every 10 seconds.{" "}
          {at > 0 && <>Shown is what it answered at {absolute.format(at)}.</>}
        </p>
      )}
      {data === undefined ? failure === undefined && <p aria-busy="true">Loading…</p> : children(data)}
    </>
  );
}

/** A column, and the kind of its cells: `wide` ones wrap, numbers are aligned at their end. */
type TableColumn = readonly [title: string, kind?: "wide" | "number"];

/** A table that scrolls by itself where it is wider than the screen; on a narrow one each row is a list. */
export function Table({
  label,
  columns,
  rows,
}: {
  readonly label: string;
  readonly columns: readonly TableColumn[];
  /** The cells of each row, in the order of the columns. */
  readonly rows: readonly (readonly ComponentChildren[])[];
}): JSX.Element {
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(([title, kind]) => (
              <th scope="col" key={title} class={kind}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, index) => (
            <tr key={index}>
              {columns.map(([title, kind], column) => (
                <td key={title} class={kind} data-title={title}>
                  {cells[column]}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/u;

const Facts = ({ facts }: { readonly facts: NonNullable<Section["facts"]> }): JSX.Element => (
  <dl>
    {facts.map(({ name, value, source }, index) => (
      <div key={index}>
        <dt>
          <Text>{name}</Text>
        </dt>
        <dd>
          {isTime.test(value) ? <Time at={value} /> : <Text>{value}</Text>}{" "}
          {source !== undefined && <span class="quiet">({source})</span>}
        </dd>
      </div>
    ))}
  </dl>
);

/** Sections as a tree that opens and closes, all of it open. */
export const Tree = ({ sections }: { readonly sections: readonly Section[] }): JSX.Element => (
  <ul class="tree">
    {sections.map(({ title, facts = [], children = [] }, index) => (
      <li key={`${index} ${title}`}>
        {facts.length + children.length === 0 ? (
          <Text>{title}</Text>
        ) : (
          <details open>
            <summary>
              <Text>{title}</Text>
            </summary>
            {facts.length > 0 && <Facts facts={facts} />}
            {children.length > 0 && <Tree sections={children} />}
          </details>
        )}
      </li>
    ))}
  </ul>
);

export function Events({ label, events }: { readonly label: string; readonly events: readonly ConsoleEvent[] }) {
  if (events.length === 0) return <p>None since this process started.</p>;
  return (
    <Table
      label={label}
      columns={[["When"], ["Type"], ["Reason"], ["Message", "wide"], ["From"]]}
      rows={events.map(({ at, type, reason, message, source }) => [
        <Time at={at} />,
        <State value={type} />,
        reason,
        <Text>{message}</Text>,
        source,
      ])}
    />
  );
}

/** Outcome of a write: its error without the request, which is shown beside it. */
export function Outcome({ outcome, resource }: Pick<WriteRow, "outcome" | "resource">): JSX.Element {
  if (outcome === "done") return <State value="done" />;
  const end = outcome.indexOf(`${resource}: `);
  const error = end < 0 ? outcome.replace(/^failed: */u, "") : outcome.slice(end + resource.length + 2);
  return (
    <>
      <State value="failed" /> <Text>{error}</Text>
    </>
  );
}

export function Writes({ writes }: { readonly writes: readonly WriteRow[] }): JSX.Element {
  if (writes.length === 0) return <p>None among the latest writes of this process.</p>;
  return (
    <Table
      label="Writes"
      columns={[
        ["When"],
        ["Controller"],
        ["Operation", "wide"],
        ["Seconds", "number"],
        ["Because of", "wide"],
        ["Outcome", "wide"],
      ]}
      rows={writes.map(({ at, controller, operation, resource, outcome, milliseconds, causes }) => [
        <Time at={at} />,
        controller,
        <>
          {operation} <Text>{resource}</Text>
        </>,
        (milliseconds / 1000).toFixed(3),
        <Text>{causes}</Text>,
        <Outcome outcome={outcome} resource={resource} />,
      ])}
    />
  );
}
