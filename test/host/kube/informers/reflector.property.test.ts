import { expect, test } from "bun:test";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { InformerPool } from "../../../../host/kube/informers/pool.ts";
import { capturedLog } from "../captured-log.ts";
import { StubApi, type Widget, widgets } from "../stub-api.ts";

const seed = 19_970_822;

const name = fc.constantFrom("a", "b", "c", "d", "e");
const edit = fc.oneof(
  fc.record({ do: fc.constant("put" as const), name, size: fc.nat(9) }),
  fc.record({ do: fc.constant("remove" as const), name }),
);
type Edit = typeof edit extends fc.Arbitrary<infer Value> ? Value : never;
const step = fc.oneof(
  { weight: 4, arbitrary: edit },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("bookmark" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("end" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("settle" as const) }) },
  {
    weight: 2,
    // What happens while the server cannot be reached, and whether it still knows of it afterwards.
    arbitrary: fc.record({ do: fc.constant("away" as const), edits: fc.array(edit), forgets: fc.boolean() }),
  },
);

const widget = (of: string, size = 0): Widget => ({ metadata: { name: of, namespace: "ns" }, spec: { size } });
const sizes = (objects: Iterable<Widget>): string[] =>
  Array.from(objects, ({ metadata, spec }) => `${metadata?.name}=${spec?.size}`).toSorted();

test(`the store and the delivered changes agree with the server, whatever happens to the watch (seed ${seed})`, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30, size: "max" }), async (steps) => {
      await using api = await StubApi.start();
      const clock = manualClock();
      const transport = createTransport(api.access(), { userAgent: "test", qps: -1, clock });
      const pool = new InformerPool({ transport, clock, log: capturedLog().log });
      const share = pool.share();
      const informer = share.of(widgets);
      const reported = new Map<string, Widget>();
      const key = (object: Widget): string => object.metadata?.name ?? "";
      const contradictions: string[] = [];
      informer.handle({
        added: (object) => {
          if (reported.has(key(object))) contradictions.push(`added twice: ${key(object)}`);
          reported.set(key(object), object);
        },
        updated: (before, after) => {
          if (reported.get(key(before)) !== before) contradictions.push(`updated from another state: ${key(after)}`);
          reported.set(key(after), after);
        },
        deleted: (last) => {
          if (!reported.delete(key(last))) contradictions.push(`deleted unknown: ${key(last)}`);
        },
      });

      const wanted = (): string[] => sizes(api.objects(widgets).values());
      const agreement = () =>
        eventually("the store agrees with the server", async () => {
          await clock.advance(1000);
          return Bun.deepEquals(sizes(informer.store.list()), wanted());
        });

      const make = (change: Edit): void => {
        if (change.do === "put") api.put(widgets, widget(change.name, change.size));
        else if (api.objects(widgets).has(`ns/${change.name}`)) api.remove(widgets, widget(change.name));
      };

      await share.synced();
      for (const action of steps) {
        if (action.do === "put" || action.do === "remove") make(action);
        else if (action.do === "bookmark") api.bookmark(widgets);
        else if (action.do === "end") api.endWatches();
        else if (action.do === "settle") await agreement();
        else if (action.do === "away") {
          await api.stop();
          for (const change of action.edits) make(change);
          if (action.forgets) api.compact();
          await api.listen();
        }
      }

      await agreement();
      await eventually("the handler agrees with the server", () => Bun.deepEquals(sizes(reported.values()), wanted()));
      expect(contradictions).toEqual([]);
      await pool.close();
    }),
    { seed, numRuns: 40 },
  );
}, 120_000);
