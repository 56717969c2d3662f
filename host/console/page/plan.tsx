import type { JSX } from "preact";

import type { Answers } from "../schema.ts";
import type { Answer } from "./live.ts";
import { State, Table, Text, Time, View } from "./parts.tsx";

type Plan = NonNullable<Answers["plan"]["plan"]>;
type Change = Plan["changes"][number];

export const PlanView = ({ answer }: { readonly answer: Answer<Answers["plan"]> }): JSX.Element => (
  <View title="Plan" json="/ui/plan?format=json" answer={answer}>
    {({ planning, madeAt, seconds, failure, plan, changesLeftOut = 0, fieldsLeftOut = 0 }) => (
      <>
        <p>What a host with these flags would write now. Planning writes nothing, and one plan is made at a time.</p>
        <p role="status">
          {planning && "Planning… "}
          {madeAt !== undefined && (
            <>
              {failure === undefined ? "Made" : "Tried"} <Time at={madeAt} /> in {seconds} s.
            </>
          )}
        </p>
        <button
          type="button"
          disabled={planning}
          onClick={() => void fetch("/ui/api/plan?new=true").catch(() => undefined)}
        >
          Plan now
        </button>
        {failure !== undefined && (
          <p class="notice">
            The plan could not be made: <Text>{failure}</Text>
          </p>
        )}
        {plan !== undefined && <Planned plan={plan} left={[changesLeftOut, fieldsLeftOut]} />}
      </>
    )}
  </View>
);

function Planned({ plan, left: [changes, fields] }: { readonly plan: Plan; readonly left: readonly [number, number] }) {
  const all = plan.changes.length + changes;
  const noun = all === 1 ? "change" : "changes";
  return (
    <>
      <h2>{all === 0 ? (plan.complete ? "Nothing to change" : "No changes found so far") : `${all} ${noun}`}</h2>
      <Lines title="What could not be planned" lines={plan.failures} />
      <Lines
        title="Removals that are held: no cause explains them"
        lines={plan.held.map(({ title, removals, reason }) => `${title}: ${removals.join(", ")}\n${reason}`)}
      />
      <Lines
        title="In flight, by another manager"
        lines={plan.inFlight.map(({ title, state }) => `${title}: ${state}`)}
      />
      <Lines title="Served by no shard; nothing of them is changed or deleted" lines={plan.unservedServices ?? []} />
      <Lines title="Refused as they are" lines={plan.refused.map(({ resource, reason }) => `${resource}: ${reason}`)} />
      <ol class="problems">
        {plan.changes.map((change, index) => (
          <li key={index}>
            <ChangeCard {...change} />
          </li>
        ))}
      </ol>
      {changes + fields > 0 && (
        <p class="notice">{`${changes} more changes and ${fields} more fields: the command plan prints all of them.`}</p>
      )}
      <Lines title="Controllers that would not run" lines={plan.skippedControllers} />
    </>
  );
}

const Lines = ({ title, lines }: { readonly title: string; readonly lines: readonly string[] }): JSX.Element | null =>
  lines.length === 0 ? null : (
    <section>
      <h2>{title}</h2>
      <ul>
        {lines.map((line, index) => (
          <li class="cause" key={index}>
            <Text>{line}</Text>
          </li>
        ))}
      </ul>
    </section>
  );

const ChangeCard = ({ action, title, resource, reasons, interruptions, fields }: Change): JSX.Element => (
  <article class={`problem ${interruptions.length > 0 ? "warning" : ""}`}>
    <h3>
      <State value={action} /> <Text>{title}</Text>
    </h3>
    <p class="quiet wrap">
      <Text>{resource}</Text>
    </p>
    {reasons.length > 0 && (
      <p>
        Because of <Text>{reasons.join(", ")}</Text>
      </p>
    )}
    {interruptions.length > 0 && (
      <p>
        <State value="warning" /> Interrupts traffic: <Text>{interruptions.join("; ")}</Text>
      </p>
    )}
    {fields.length > 0 && (
      <details>
        <summary>{fields.length === 1 ? "1 field" : `${fields.length} fields`}</summary>
        <Table
          label={`Fields of ${title}`}
          columns={[
            ["Field", "wide"],
            ["Before", "wide"],
            ["After", "wide"],
          ]}
          rows={fields.map(({ path, before, after }) =>
            [path, shown(before), shown(after)].map((value) => <Text>{value}</Text>),
          )}
        />
      </details>
    )}
  </article>
);

const shown = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, undefined, 1);
