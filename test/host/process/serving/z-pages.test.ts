import { expect, test } from "bun:test";

import { zPage, type ZPages } from "../../../../host/process/serving/z-pages.ts";

const startedAt = new Date("2026-11-22T21:03:43.500Z");
const facts: ZPages = {
  component: "the-component",
  version: "v1.2.3",
  startedAt: () => startedAt,
  now: () => startedAt.getTime() + 3_723_999,
  flags: () => ({ v: "2", "cluster-name": "kubernetes" }),
};
const structured = (kind: string, version = "v1beta1"): string =>
  `application/json;v=${version};g=config.k8s.io;as=${kind}`;

test("/statusz has the structured form of Kubernetes components with the parameters of the Accept header", async () => {
  const response = zPage("Statusz", structured("Statusz"), facts);
  expect(response?.headers.get("content-type")).toBe("application/json");
  expect(response?.headers.get("warning")).toBeNull();
  expect(await response?.json()).toEqual({
    kind: "Statusz",
    apiVersion: "config.k8s.io/v1beta1",
    metadata: { name: "the-component" },
    startTime: "2026-11-22T21:03:43Z",
    uptimeSeconds: 3723,
    binaryVersion: "v1.2.3",
    paths: ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz"],
  });
});

test("/flagz has the structured form of Kubernetes components with the parameters of the Accept header", async () => {
  expect(await zPage("Flagz", structured("Flagz"), facts)?.json()).toEqual({
    kind: "Flagz",
    apiVersion: "config.k8s.io/v1beta1",
    metadata: { name: "the-component" },
    flags: { v: "2", "cluster-name": "kubernetes" },
  });
});

test("the deprecated v1alpha1 of a z-page is served with a warning that names its successor", async () => {
  const response = zPage("Statusz", structured("Statusz", "v1alpha1"), facts);
  expect(await response?.json()).toMatchObject({ apiVersion: "config.k8s.io/v1alpha1" });
  expect(response?.headers.get("warning")).toBe(
    '299 - "config.k8s.io/v1alpha1 Statusz is deprecated; use config.k8s.io/v1beta1"',
  );
});

test("a z-page is plain text where text is preferred, with the caution of Kubernetes components", async () => {
  for (const accept of ["text/plain", "text/*", "application/json;q=0.5, text/plain;q=0.9", "text/plain, */*;q=0.1"]) {
    const response = zPage("Statusz", accept, facts);
    expect([accept, response?.headers.get("content-type")]).toEqual([accept, "text/plain; charset=utf-8"]);
    expect(await response?.text()).toBe(
      [
        "",
        "the-component statusz",
        "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.",
        "",
        "Started: Sun, 22 Nov 2026 21:03:43 GMT",
        "Up: 1 hr 02 min 03 sec",
        "Binary version: v1.2.3",
        "Paths: /configz /flagz /healthz /livez /metrics /readyz /statusz",
        "",
      ].join("\n"),
    );
  }
  const flags = await zPage("Flagz", "text/plain", facts)?.text();
  expect(flags).toStartWith("\nthe-component flags\nWarning: ");
  expect(flags).toEndWith("\n\nv=2\ncluster-name=kubernetes\n");
});

test("a z-page keeps this program's form for a client without preference, and for plain JSON", () => {
  for (const accept of [
    "",
    "*/*",
    "application/*",
    "application/json",
    "application/json, */*",
    "image/png, */*;q=0.8",
  ])
    expect([accept, zPage("Statusz", accept, facts)]).toEqual([accept, undefined]);
});

test("a z-page in a form that does not exist is refused with 406 and the forms that do", async () => {
  const unknown = [
    structured("Flagz"),
    structured("Statusz", "v1"),
    "application/json;v=v1beta1",
    "application/json;as=Statusz;g=apps;v=v1beta1",
    "image/png",
    "text/plain;q=0",
    "application/json;q=0",
  ];
  for (const accept of unknown) {
    const response = zPage("Statusz", accept, facts);
    expect([accept, response?.status]).toEqual([accept, 406]);
    expect(await response?.text()).toContain("application/json;g=config.k8s.io;v=v1beta1;as=Statusz");
  }
});

test("the first acceptable form of a z-page is chosen by its quality", async () => {
  const accept = `image/png, text/plain;q=0.4, ${structured("Statusz", "v2")}, ${structured("Statusz")};q=0.6`;
  expect(await zPage("Statusz", accept, facts)?.json()).toMatchObject({ kind: "Statusz" });
});
