import { expect, test } from "bun:test";

import { defineWebhook } from "cloud-controller-host/sdk";

const webhook = (path: string) => defineWebhook({ name: "w", path, rules: [], admit: () => ({ allowed: true }) });

test.each(["/", "/v", "/validate/v1.services", "/a%20b", "/~x"])("a webhook is served at the path %j", (path) => {
  expect(webhook(path).path).toBe(path);
});

test.each(["", "v", "/a b", "/a?b", "/a#b", "/a/../b", "/./a", "/{a}", '/"a"', "/ä", "/a\\b"])(
  "a webhook that no request could reach, at the path %j, is refused",
  (path) => {
    expect(() => webhook(path)).toThrow('must start with "/" and be as in a URL');
  },
);
