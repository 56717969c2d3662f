import { beforeAll, expect, test } from "bun:test";
import { join } from "node:path";

import { isObject } from "cloud-controller-host/sdk";

import { temporaryDirectory } from "../../../host/sandbox/directory.ts";

const folder = join(import.meta.dir, "../../../host/console/page");
const names = ["list", "parts", "plan", "route", "runbook", "views"];

/** The functions of the page, which is bundled as for a browser. */
const page = new Map<string, (...parameters: readonly unknown[]) => unknown>();

beforeAll(async () => {
  await using built = await temporaryDirectory();
  const { outputs } = await Bun.build({
    entrypoints: names.map((name) => join(folder, `${name}${name === "route" ? ".ts" : ".tsx"}`)),
    outdir: built.path,
    jsx: { runtime: "automatic", importSource: "preact", development: false },
  });
  const modules = await Promise.all(outputs.map(({ path }) => import(path)));
  for (const exported of modules) for (const name of Object.keys(exported)) page.set(name, exported[name]);
});

/** The text of a part of the page; a link with its address, code in backticks, and a state with its tone. */
function textOf(part: unknown): string {
  if (typeof part === "string" || typeof part === "number") return `${part}`;
  if (Array.isArray(part)) return part.map(textOf).join("");
  if (!isObject(part) || !isObject(part["props"])) return "";
  const { type, props } = part;
  if (typeof type === "function") return textOf(type(props));
  const text = textOf(props["children"]);
  const { href, class: tone } = props;
  if (type === "a" && typeof href === "string") return `[${text}](${href})`;
  if (type === "code") return `\`${text}\``;
  if (type !== "span" && type !== "bdi" && type !== "strong") return `${text}\n`;
  return typeof tone === "string" && tone.startsWith("state") ? `{${tone}: ${text}}` : text;
}

const shown = (name: string, props: object): string => textOf(page.get(name)?.(props));
/** A view with its data. */
const view = (name: string, data: unknown, more: object = {}): string =>
  shown(name, { answer: { data, failure: undefined, at: 0, ...more } });

test("a list asks for the rows around the top one in steps of 50, with its filter and its order", () => {
  const query = (text: string, top: number) => page.get("windowQuery")?.(new URLSearchParams(text), top);
  expect(query("", 0)).toBe("offset=0&limit=200");
  expect(query("", 99)).toBe("offset=0&limit=200");
  expect(query("", 100)).toBe("offset=50&limit=200");
  expect(query("sort=-name&filter=a%26b&offset=7&limit=1", 149)).toBe("offset=50&limit=200&filter=a%26b&sort=-name");
  expect(query("filter=", 0)).toBe("offset=0&limit=200");
});

test("a path of the page has each of its parts encoded", () => {
  expect(page.get("encodePath")?.("services", "a/b", "ü?")).toBe("/ui/services/a%2Fb/%C3%BC%3F");
});

test("a time is shown with its age in the largest unit that fits, and as unknown if it cannot be read", () => {
  const age = (seconds: number): string | undefined =>
    /\((.*)\)/u.exec(shown("Time", { at: new Date(Date.now() - seconds * 1000).toISOString() }))?.[1];
  expect([0, 59, 60, 3_599, 3_600, 86_399, 172_800].map(age)).toEqual([
    "now",
    "59 seconds ago",
    "1 minute ago",
    "59 minutes ago",
    "1 hour ago",
    "23 hours ago",
    "2 days ago",
  ]);
  expect(["soon", undefined].map((at) => shown("Time", { at }))).toEqual(["unknown", "unknown"]);
});

test("a state has a sign and a tone, and one that the page does not know is neutral", () => {
  const state = (value: string) => shown("State", { value });
  expect(["failing", "not ready", "create", "standing by"].map(state)).toEqual([
    "{state bad: ✖ failing}",
    "{state warn: ▲ not ready}",
    "{state good: + create}",
    "{state quiet: ● standing by}",
  ]);
});

test("a view shows that it loads, or why it cannot, and its older data with their time", () => {
  const of = (answer: object) => shown("View", { title: "Nodes", json: "/x", answer, children: () => "rows" });
  const heading = "Nodes\n[JSON](/x)\n";
  expect(of({ data: undefined, failure: undefined, at: 0 })).toBe(`${heading}Loading…\n`);
  const again = "The page asks again every 10 seconds. ";
  expect(of({ data: undefined, failure: "No answer", at: 0 })).toBe(`${heading}No answer. ${again}\n`);
  expect(of({ data: {}, failure: "Cut…", at: 1 })).toMatch(
    /Cut… The page .* Shown is what it answered at .*\.\nrows$/u,
  );
  expect(of({ data: {}, failure: undefined, at: 1 })).toBe(`${heading}rows`);
});

test("writes are shown with their seconds and their outcome, and an empty list with a sentence", () => {
  const write = { controller: "cloud", operation: "PUT", resource: "lb", milliseconds: 1_250, causes: "default/web" };
  const writes = shown("Writes", {
    writes: [
      { ...write, outcome: "done" },
      { ...write, outcome: "failed: 403 denied" },
      { ...write, outcome: "failed: 409 ARM PUT lb: 409 Busy: try again" },
    ],
  });
  expect(writes).toContain("PUT lb\n1.250\ndefault/web\n{state good: ✔ done}\n");
  expect(writes).toContain("{state bad: ✖ failed} 403 denied\n");
  expect(writes).toContain("{state bad: ✖ failed} 409 Busy: try again\n");
  expect(shown("Writes", { writes: [] })).toBe("None among the latest writes of this process.\n");
  expect(shown("Events", { events: [] })).toBe("None since this process started.\n");
});

test("a tree shows a section that has neither facts nor children, facts with their source, and children", () => {
  const facts = [
    { name: "zone", value: "1", source: "ARM" },
    { name: "size", value: "small" },
  ];
  const children = [{ title: "member" }];
  const sections = [
    { title: "empty" },
    { title: "pool", facts, children },
    { title: "group", children },
    { title: "last", facts },
  ];
  const text = shown("Tree", { sections }).replaceAll(/\n+/gu, "\n");
  expect(text).toBe(
    "empty\npool\nzone\n1 (ARM)\nsize\nsmall \nmember\ngroup\nmember\nlast\nzone\n1 (ARM)\nsize\nsmall \n",
  );
});

const plan = {
  complete: true,
  changes: [],
  held: [],
  refused: [],
  inFlight: [],
  failures: [],
  skippedControllers: [],
};
const change = { action: "create", title: "rule", resource: "lb", reasons: [], interruptions: [], fields: [] };

test("a fact that is a time is shown in local time with its age, and other facts as they are", () => {
  const text = (value: string) => shown("Tree", { sections: [{ title: "s", facts: [{ name: "f", value }] }] });
  expect(text("2020-01-02T12:00:00Z")).toMatch(/Jan 2, 2020, .*days ago/u);
  expect(text("since 2020-01-02T12:00:00Z")).toContain("since 2020-01-02T12:00:00Z");
});

test("a plan that could not be made was tried, not made", () => {
  const text = (more: object) => view("PlanView", { planning: false, madeAt: "2026-11-23T12:00:00Z", ...more });
  expect(text({ failure: "refused" })).toMatch(/Tried Nov[^]*The plan could not be made: refused/u);
  expect(text({ plan })).toMatch(/Made Nov/u);
});

test("a plan names the number of its changes, also of those left out, or that it found none", () => {
  const heading = (more: object, left: object = {}) =>
    view("PlanView", { planning: false, plan: { ...plan, ...more }, ...left });
  expect(heading({})).toContain("Nothing to change\n");
  expect(heading({ complete: false })).toContain("No changes found so far\n");
  expect(heading({ changes: [change] })).toContain("1 change\n");
  const left = heading({ changes: [change] }, { changesLeftOut: 2 });
  expect(left).toContain("3 changes\n");
  expect(left).toContain("2 more changes and 0 more fields: the command plan prints all of them.");
  expect(heading({ changes: [change] })).not.toContain("prints all of them");
});

test("a plan names what another manager is writing, and the Services that no shard serves", () => {
  const inFlight = [{ resource: "/lb", title: "load balancer lb", state: "Updating" }];
  const unservedServices = ["Service default/web: no shard that leads selects it"];
  const text = view("PlanView", { planning: false, plan: { ...plan, inFlight, unservedServices } });
  expect(text).toContain("In flight, by another manager\nload balancer lb: Updating\n");
  expect(text).toContain(`Served by no shard; nothing of them is changed or deleted\n${unservedServices.join("")}\n`);
  expect(view("PlanView", { planning: false, plan })).not.toMatch(/In flight|no shard/u);
});

test("a change shows what it interrupts, because of what, and its fields as text or JSON", () => {
  const field = { path: "port", before: undefined, after: { number: 80 } };
  const fields = [field, { path: "name", before: "a", after: "b" }];
  const text = (own: object) =>
    view("PlanView", { planning: true, plan: { ...plan, changes: [{ ...change, ...own }] } });
  const full = text({ reasons: ["default/web", "default/api"], interruptions: ["new address"], fields });
  expect(full).toContain("Because of default/web, default/api\n");
  expect(full).toContain("Interrupts traffic: new address\n");
  expect(full).toContain("2 fields\n");
  expect(full).toContain('port\n\n{\n "number": 80\n}\n');
  expect(full).toContain("name\na\nb\n");
  expect(text({ fields: [field] })).toContain("1 field\n");
  expect(text({})).not.toContain("Because of");
});

test("a remedy is a sentence, with its code, and the text and the file of its links", () => {
  const runbook = (query: string, rows: readonly object[]) =>
    shown("RunbookView", { query, answer: { data: { rows }, failure: undefined, at: 0 } });
  const remedy = "`a` first, see [the alert](ALERTS.md#b), or `c`";
  const text = runbook("row=R", [{ name: "R", remedy }]);
  expect(text).toContain("[JSON](/ui/runbook?row=R&format=json)");
  expect(text).toContain("`a` first, see the alert (deploy/ALERTS.md), or `c`.\n");
  expect(runbook("", [{ name: "R", remedy: "Is `a` there?" }])).toContain("Is `a` there?\n");
  expect(text).toContain("[All rows](/ui/runbook)");
  expect(runbook("", [])).toContain("Unknown row.\n");
  expect(runbook("", [])).toContain("[JSON](/ui/runbook?format=json)");
  expect(runbook("", [])).not.toContain("All rows");
});

test("the overview names the leader on a replica that stands by, and each problem with its view and its remedy", () => {
  const data = { identity: "two", leader: "one", leading: false, problems: [], verified: [] };
  expect(view("Overview", data)).toContain("two, stands by. one leads: ask it for what it does.\n");
  expect(view("Overview", { ...data, leader: "" })).toContain("stands by. No replica leads.\n");
  expect(view("Overview", { ...data, leading: true })).not.toContain("stands by");
  const problem = {
    severity: "critical",
    title: "It fails",
    cause: "c",
    advice: "a.",
    runbook: "R",
    view: "nodes?sort=x",
  };
  const text = view("Overview", { ...data, problems: [problem, { ...problem, view: undefined }] });
  expect(text).toContain("Wrong now: 2\n");
  expect(text.split("[Show nodes](/ui/nodes?sort=x)")).toHaveLength(2);
  expect(text).toContain("What to do: a. [Runbook: R](/ui/runbook?row=R)");
  expect(view("Overview", data)).toContain("Nothing is wrong\n");
});

test("the overview of a shadow says what it does, and which manager it compares with", () => {
  const data = { problems: [], verified: [], identity: "", leader: "kcm_1", leading: false };
  const text = (more: object) => view("Overview", { ...data, ...more });
  expect(text({ shadow: true })).toContain("This replica compares with kcm_1 and writes nothing.");
  expect(text({ shadow: true })).not.toContain("stands by");
  expect(text({ shadow: true, leader: "" })).toContain(
    "This replica compares with the other manager and writes nothing.",
  );
  expect(text({ identity: "one" })).toContain("This replica, one, stands by. kcm_1 leads");
});

test("leadership names the holder of each lock, and this replica where it is that one", () => {
  const data = { identity: "one", generation: { number: 1, phase: "running" }, reloads: [], timeline: [] };
  const lock = { lease: "main", leader: "one", leading: true, controllers: ["route", "service"] };
  const held = view("Leadership", { ...data, locks: [lock, { ...lock, leader: "", leading: false, controllers: [] }] });
  expect(held).toContain("main\none (this replica)\nroute, service\n");
  expect(held).toContain("main\nno holder\nnone\n");
  const expired = { ...lock, leader: "gone", leading: false, expired: true };
  const seen = view("Leadership", { ...data, locks: [expired, { ...lock, leader: "", leading: false, unread: true }] });
  expect(seen).toContain("main\ngone, which no longer renews it\n");
  expect(seen).toContain("main\nnot known: only the leader reads it\n");
  expect(held).toContain("Runs since\ndoes not run\n");
  expect(view("Leadership", { ...data, locks: [] })).toContain("Leader election is off");
  const reloaded = { ...data.generation, reloads: 1, lastReloadAt: "2026-11-23T12:00:00Z" };
  expect(view("Leadership", { ...data, generation: reloaded, locks: [] })).toContain("1, the latest: Nov 23, 2026");
  const reload = { result: "reloaded", reason: "", changed: [], trigger: "SIGHUP", preparing: 1.5 };
  expect(view("Leadership", { ...data, locks: [], reloads: [reload] })).toContain("none\n\n1.500\n\nSIGHUP\n");
});

test("controllers, the cloud and objects show their reasons, their numbers and what could not be read", () => {
  const queue = { name: "q", depth: 1, retries: 2, done: 3, meanSeconds: 0.25, slowest: { key: "a", seconds: 2 } };
  const route = { name: "route", state: "not running", lock: "main", reason: "off" };
  const controllers = view("Controllers", { controllers: [route], queues: [queue], sections: [] });
  expect(controllers).toContain("not running}\noff\n");
  expect(controllers).toContain("q\n1\n2\n3\n\n0.250\na, for 2.0 s\n");
  const cloud = { name: "azure", sections: [], failedWrites: 4, drift: 5, slowest: [] };
  expect(view("CloudView", cloud)).toContain("Latest write\nnone\n");
  expect(view("CloudView", cloud)).toContain("[4 among the latest writes](/ui/writes?filter=state:failed)");
  expect(view("CloudView", cloud)).toContain("This cloud shows nothing more of itself.");
  const answer = { data: undefined, failure: undefined, at: 0 };
  expect(shown("ObjectDetails", { path: "nodes/a%2Fb", answer })).toStartWith("nodes/a/b\n");
  const object = { subject: "Node a", tree: [], failure: "throttled", events: [], writes: [] };
  expect(view("ObjectDetails", object)).toContain("The cloud's part could not be read: throttled\n");
});
