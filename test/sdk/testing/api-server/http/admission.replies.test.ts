import { expect, test } from "bun:test";

import { isObject } from "cloud-controller-host/sdk";

import { SandboxApiServer } from "../../../../../sdk/testing/api-server/index.ts";
import { connectTo } from "../on-both.ts";

const rules = [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }] as const;

/** The reply to the creation of a ConfigMap that a webhook answers so, and if it was created. */
async function createdWith(response: object) {
  await using server = await SandboxApiServer.start();
  await using webhook = Bun.serve({
    port: 0,
    async fetch(request) {
      const review: unknown = await request.json();
      const { uid } = isObject(review) && isObject(review["request"]) ? review["request"] : {};
      return Response.json({ response: { uid, ...response } });
    },
  });
  server.webhooks = [{ name: "w", url: webhook.url.href, type: "validating", rules }];
  const api = connectTo(server);
  const path = "/api/v1/namespaces/default/configmaps";
  const { status, headers, body } = await api.send("POST", path, { metadata: { name: "c" } });
  const { items } = await api.done("GET", path);
  return { status, headers, body, created: items.length === 1 };
}

test("a webhook's warning in any script reaches the client of a write, in UTF-8", async () => {
  const { status, headers } = await createdWith({ allowed: true, warnings: ["größer → kleiner", "a\nb"] });
  expect(status).toBe(201);
  const warning = Buffer.from(headers.get("warning") ?? "", "latin1").toString();
  expect(warning).toBe('299 - "größer → kleiner", 299 - "a\\nb"');
});

test.each([
  [{ code: 422, reason: "Invalid", message: "no" }, 422, "Invalid", ": no"],
  [{ code: 200, reason: "Expired" }, 400, "Expired", ": Expired"],
  [{ code: 7 }, 400, undefined, " without explanation"],
  [{ code: 99_999, message: 5 }, 400, undefined, " without explanation"],
  [{}, 400, undefined, " without explanation"],
])(
  "a denial with the status %j is an error to the client, and nothing is written",
  async (status, code, reason, why) => {
    const denied = await createdWith({ allowed: false, status });
    expect([denied.status, denied.body.reason, denied.created]).toEqual([code, reason, false]);
    expect(denied.body.message).toBe(`admission webhook "w" denied the request${why}`);
  },
);
