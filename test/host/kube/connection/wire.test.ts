import { expect, test } from "bun:test";

import { statusError } from "../../../../host/kube/connection/wire.ts";

const forbidden = (message: string): string => statusError("GET /x", 403, { reason: "Forbidden", message }).message;

test.each([
  'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope',
  'leases.coordination.k8s.io "l" is forbidden: User "u" cannot update resource "leases" in API group "coordination.k8s.io" in the namespace "n"',
  'forbidden: User "u" cannot get path "/metrics"',
])("a denial by the authorizer names the command that prints the missing role: %s", (message) => {
  expect(forbidden(message)).toStartWith(`${message}; grant it with a role: \`cloud-controller-host rbac\``);
});

test("a denial of a user who needs another role than the host has that user's hint", () => {
  const message = 'events is forbidden: User "u" cannot list resource "events" in API group "" in the namespace "n"';
  const options = { permissionHint: "ask for it" };
  expect(statusError("GET /x", 403, { reason: "Forbidden", message }, options).message).toBe(`${message}; ask for it`);
});

test.each([
  'pods "p" is forbidden: unable to create new content in namespace n because it is being terminated',
  'services "s" is forbidden: exceeded quota: q',
])("a denial by admission keeps its message: %s", (message) => {
  expect(forbidden(message)).toBe(message);
});
