import type { JSX } from "preact";

import type { Answers, Problem } from "../schema.ts";
import type { Answer } from "./live.ts";
import { Events, State, Table, Text, Time, Tree, View, Writes } from "./parts.tsx";

export const Overview = ({ answer }: { readonly answer: Answer<Answers["overview"]> }): JSX.Element => (
  <View title="Overview" json="/ui/overview?format=json" answer={answer}>
    {({ problems, verified, identity, leader, leading, shadow = false }) => (
      <>
        {shadow && (
          <p class="notice">
            This replica compares with {leader === "" ? "the other manager" : leader} and writes nothing.
          </p>
        )}
        {!leading && !shadow && (
          <p class="notice">
            This replica, {identity}, stands by.{" "}
            {leader === "" ? "No replica leads." : `${leader} leads: ask it for what it does.`}
          </p>
        )}
        <section aria-labelledby="wrong">
          <h2 id="wrong">{problems.length === 0 ? "Nothing is wrong" : `Wrong now: ${problems.length}`}</h2>
          <ol class="problems">
            {problems.map((problem, index) => (
              <li key={index}>
                <ProblemCard {...problem} />
              </li>
            ))}
          </ol>
        </section>
        <section aria-labelledby="verified">
          <h2 id="verified">In order</h2>
          <dl>
            {verified.map(({ name, value, at }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <Text>{value}</Text>
                  {at !== undefined && (
                    <>
                      {" · "}
                      <Time at={at} />
                    </>
                  )}
                </dd>
              </div>
            ))}
          </dl>
        </section>
      </>
    )}
  </View>
);

const ProblemCard = ({ severity, title, cause, since, advice, runbook, view }: Problem): JSX.Element => (
  <article class={`problem ${severity}`}>
    <h3>
      <State value={severity} /> {title}
    </h3>
    <p class="cause">
      <Text>{cause}</Text>
    </p>
    <p>
      {since !== undefined && (
        <>
          Since <Time at={since} />.{" "}
        </>
      )}
      {view !== undefined && <a href={`/ui/${view}`}>Show {view.split("?", 1)[0]}</a>}
    </p>
    <p>
      <strong>What to do:</strong> {advice} <a href={`/ui/runbook?row=${runbook}`}>{`Runbook: ${runbook}`}</a>
    </p>
  </article>
);

export const Leadership = ({ answer }: { readonly answer: Answer<Answers["leadership"]> }): JSX.Element => (
  <View title="Leadership and generations" json="/ui/leadership?format=json" answer={answer}>
    {({ identity, locks, generation, reloads, lastRefusal, lastRollback, timeline }) => (
      <>
        <h2>Locks</h2>
        {locks.length === 0 ? (
          <p>Leader election is off: this process always runs its controllers.</p>
        ) : (
          <Table
            label="Locks"
            columns={[["Lease"], ["Held by"], ["Controllers here", "wide"]]}
            rows={locks.map(({ lease, controllers, ...lock }) => [
              lease,
              holderText(lock),
              controllers.join(", ") || "none",
            ])}
          />
        )}
        <h2>Generation</h2>
        <dl>
          <Pair name="This replica">{identity}</Pair>
          <Pair name="Generation">{`${generation.number}, ${generation.phase}`}</Pair>
          <Pair name="Runs since">
            {generation.startedAt === undefined ? "does not run" : <Time at={generation.startedAt} />}
          </Pair>
          <Pair name="Config hash">{generation.configHash || "none"}</Pair>
          <Pair name="Plugin hash">{generation.pluginHash || "none"}</Pair>
          <Pair name="Reloads">
            {generation.reloads}
            {generation.lastReloadAt !== undefined && (
              <>
                , the latest: <Time at={generation.lastReloadAt} />
              </>
            )}
          </Pair>
          {lastRefusal !== undefined && (
            <Pair name="Last refusal">
              <Text>{lastRefusal.reason}</Text> · <Time at={lastRefusal.at} />
            </Pair>
          )}
          {lastRollback !== undefined && (
            <Pair name="Last rollback">
              <Text>{lastRollback.reason}</Text> · <Time at={lastRollback.at} />
            </Pair>
          )}
        </dl>
        <h2>Reloads</h2>
        <Reloads reloads={reloads} />
        <h2>What happened</h2>
        <Events label="Timeline" events={timeline} />
      </>
    )}
  </View>
);

type Lock = Answers["leadership"]["locks"][number];

function holderText({ leader, leading, expired, unread }: Omit<Lock, "lease" | "controllers">): string {
  if (unread === true) return "not known: only the leader reads it";
  if (leader === "") return "no holder";
  return `${leader}${leading ? " (this replica)" : ""}${expired === true ? ", which no longer renews it" : ""}`;
}

const seconds = (value: number | undefined): string => (value === undefined ? "" : value.toFixed(3));

function Reloads({ reloads }: Pick<Answers["leadership"], "reloads">): JSX.Element {
  if (reloads.length === 0) return <p>None since this process started.</p>;
  return (
    <Table
      label="Reloads"
      columns={[
        ["When"],
        ["Result"],
        ["Changed keys", "wide"],
        ["Outcome", "wide"],
        ["Seconds to prepare", "number"],
        ["Seconds to swap", "number"],
        ["Requested by", "wide"],
      ]}
      rows={reloads.map(({ at, result, changed, preparing, swapping, trigger, reason }) => [
        <Time at={at} />,
        <State value={result} />,
        <Text>{changed.join(", ") || "none"}</Text>,
        <Text>{reason}</Text>,
        seconds(preparing),
        seconds(swapping),
        <Text>{trigger}</Text>,
      ])}
    />
  );
}

const Pair = ({ name, children }: { readonly name: string; readonly children: JSX.Element["props"]["children"] }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

export const Controllers = ({ answer }: { readonly answer: Answer<Answers["controllers"]> }): JSX.Element => (
  <View title="Controllers" json="/ui/controllers?format=json" answer={answer}>
    {({ controllers, queues, sections }) => (
      <>
        <Table
          label="Controllers"
          columns={[["Controller"], ["State"], ["Lock or reason", "wide"]]}
          rows={controllers.map(({ name, state, lock, reason }) => [
            name,
            <State value={state} />,
            <Text>{reason ?? lock ?? ""}</Text>,
          ])}
        />
        <h2>Work queues</h2>
        <Table
          label="Work queues"
          columns={[
            ["Queue"],
            ["Depth", "number"],
            ["Retries", "number"],
            ["Done", "number"],
            ["Per second", "number"],
            ["Mean seconds", "number"],
            ["Slowest item now"],
          ]}
          rows={queues.map(({ name, depth, retries, done, perSecond, meanSeconds, slowest }) => [
            name,
            depth,
            retries,
            done,
            perSecond?.toFixed(1),
            meanSeconds.toFixed(3),
            slowest && <Text>{`${slowest.key}, for ${slowest.seconds.toFixed(1)} s`}</Text>,
          ])}
        />
        {sections.map(({ name, sections: own }) => (
          <section key={name}>
            <h2>{name}</h2>
            <Tree sections={own} />
          </section>
        ))}
      </>
    )}
  </View>
);

export const CloudView = ({ answer }: { readonly answer: Answer<Answers["cloud"]> }): JSX.Element => (
  <View title="Cloud" json="/ui/cloud?format=json" answer={answer}>
    {({ name, sections, failedWrites, latestWriteAt, drift, slowest }) => (
      <>
        <dl>
          <Pair name="Cloud">{name}</Pair>
          <Pair name="Latest write">{latestWriteAt === undefined ? "none" : <Time at={latestWriteAt} />}</Pair>
          <Pair name="Failed writes">
            <a href="/ui/writes?filter=state:failed">{`${failedWrites} among the latest writes`}</a>
          </Pair>
          <Pair name="Changes by other writers">
            <a href="/ui/writes?filter=drift">{`${drift} among the latest writes`}</a>
          </Pair>
        </dl>
        {sections.length === 0 ? <p>This cloud shows nothing more of itself.</p> : <Tree sections={sections} />}
        <h2>Slow writes, of 1 s or longer</h2>
        <Writes writes={slowest} />
      </>
    )}
  </View>
);

export const ObjectDetails = ({
  path,
  answer,
}: {
  readonly path: string;
  readonly answer: Answer<Answers["object"]>;
}): JSX.Element => (
  <View title={answer.data?.subject ?? decodeURIComponent(path)} json={`/ui/${path}?format=json`} answer={answer}>
    {({ tree, failure, events, writes }) => (
      <>
        {failure !== undefined && (
          <p class="notice">
            The cloud's part could not be read: <Text>{failure}</Text>
          </p>
        )}
        <Tree sections={tree} />
        <h2>Events</h2>
        <Events label="Events" events={events} />
        <h2>Writes</h2>
        <Writes writes={writes} />
      </>
    )}
  </View>
);
