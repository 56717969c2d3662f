import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";

import { kinds, type Node, type Service } from "cloud-controller-host/sdk";
import type { Browser } from "puppeteer-core";

import type { Loopback } from "../../host/console/loopback.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { balancedService } from "../kit/services.ts";
import { openBrowser, untilText, watchedPage } from "./browser.ts";
import { consoleOf, leader } from "./leader.ts";

setDefaultTimeout(240_000);

const markup = '"><img src=x onerror=alert(1)><script>alert(2)</script>';
const marks = "\u202e\u2066\u001b[31m\u009b";
const hostile = `${markup}${marks}`;
const long = "x".repeat(200_000);

let lab: SandboxLab;
let browser: Browser;
let server: Loopback;

beforeAll(async () => {
  [lab, browser] = await Promise.all([SandboxLab.open(), openBrowser()]);
  server = consoleOf(lab, await leader(lab));
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await browser.close();
  await lab[Symbol.asyncDispose]();
});

const dnsLabel = "service.beta.kubernetes.io/azure-dns-label-name";

const serviceWith = (name: string, more: Service): Service => {
  const base = balancedService(name);
  return {
    metadata: { ...base.metadata, ...more.metadata },
    spec: { ...base.spec, ...more.spec },
    status: more.status ?? {},
  };
};

/** Not of our class: what it says is shown, and nothing is done with it. */
const foreign = (name: string, more: Service): Service =>
  serviceWith(name, { ...more, spec: { loadBalancerClass: "other", ...more.spec } });

const create = (service: Service): void => void lab.api.create(kinds.Service, service);
const createNode = (node: Node): void => void lab.api.create(kinds.Node, node);

/** What can be written by a tenant, an operator or a cloud, how, and the views that show it. */
const strings: readonly (readonly [what: string, write: () => unknown, views: readonly string[]])[] = [
  [
    "an annotation",
    () => create(serviceWith("annotated", { metadata: { annotations: { [dnsLabel]: hostile } } })),
    ["services/default/annotated", "services?filter=annotated", "overview"],
  ],
  [
    "an annotation as large as the API server takes",
    () => create(serviceWith("large", { metadata: { annotations: { [dnsLabel]: long } } })),
    ["services/default/large", "services?filter=large", "overview"],
  ],
  [
    "the class of a Service",
    () => create(foreign("classed", { spec: { loadBalancerClass: hostile } })),
    ["services?filter=classed", "services/default/classed"],
  ],
  [
    "the address of a Service",
    () =>
      create(
        serviceWith("addressed", {
          spec: { loadBalancerClass: "other" },
          metadata: { finalizers: ["service.kubernetes.io/load-balancer-cleanup"] },
          status: { loadBalancer: { ingress: [{ hostname: hostile }] } },
        }),
      ),
    ["services?filter=addressed", "services/default/addressed"],
  ],
  [
    "a condition of a Service",
    () =>
      create(
        foreign("conditioned", {
          status: {
            conditions: [
              {
                type: hostile,
                status: "False",
                reason: hostile,
                message: hostile,
                lastTransitionTime: "2026-11-22T12:00:00Z",
              },
            ],
          },
        }),
      ),
    ["services/default/conditioned"],
  ],
  [
    "all that a node says of itself",
    () =>
      createNode({
        metadata: { name: "odd" },
        spec: { providerID: hostile },
        status: {
          addresses: [{ type: "Hostname", address: hostile }],
          conditions: [{ type: "NetworkUnavailable", status: "True", message: hostile }],
        },
      }),
    ["nodes?filter=odd", "nodes/odd"],
  ],
  [
    "an error of the cloud",
    () => {
      lab.azure.simulator.failNext({ method: "PUT" }, { status: 403, code: markup, message: hostile, times: 1_000 });
      create(serviceWith("refused", {}));
    },
    ["services/default/refused", "services?filter=refused", "overview", "writes"],
  ],
  [
    "a value of the cloud config",
    () => appendFile(lab.azure.config, `\nvmType: ${JSON.stringify(hostile)}\n`),
    ["overview", "leadership"],
  ],
];

test.each(strings)(
  "%s is text in every view, without markup, control characters or a large page",
  async (_what, write, views) => {
    await write();
    for (const view of views) {
      const { page, complaints } = await watchedPage(await browser.createBrowserContext(), server.url);
      const dialogs: string[] = [];
      page.on("dialog", (dialog) => {
        dialogs.push(dialog.message());
        void dialog.dismiss();
      });
      await page.goto(new URL(view, server.url).href, { waitUntil: "domcontentloaded" });
      const text = await untilText(page, /onerror=alert\(1\)|has 200000 characters/u, 30_000);
      expect([
        view,
        ...Array.from(marks).filter((mark) => mark !== "[" && /[^ -~]/u.test(mark) && text.includes(mark)),
      ]).toEqual([view]);
      expect([view, await page.$$eval("main img, main script, main iframe, main svg", ({ length }) => length)]).toEqual(
        [view, 0],
      );
      expect((await page.content()).length).toBeLessThan(600_000);
      expect([view, dialogs, complaints]).toEqual([view, [], []]);
      await page.close();
    }
  },
);

test.each([
  `services?filter=${encodeURIComponent(hostile)}`,
  `services?sort=${encodeURIComponent(hostile)}`,
  `runbook?row=${encodeURIComponent(hostile)}`,
  encodeURIComponent(hostile),
  `services/default/${encodeURIComponent(`none${hostile}`)}`,
  `nodes/${encodeURIComponent(`none${hostile}`)}`,
])("markup in an address is never part of the page: %j", async (path) => {
  const { page, complaints } = await watchedPage(await browser.createBrowserContext(), server.url);
  await page.goto(new URL(path, server.url).href, { waitUntil: "domcontentloaded" });
  await untilText(page, "● Live", 30_000);
  expect(await page.$$eval("main img, main script", ({ length }) => length)).toBe(0);
  expect(complaints.filter((line) => !line.includes("404"))).toEqual([]);
  await page.close();
});
