import { expect, test } from "bun:test";

import { systemClock } from "../../../../host/async/clock.ts";
import { CertificateVerifier } from "../../../../host/process/access/client-certificate.ts";
import { identityHeaders } from "../../../../host/process/access/request-header.ts";

/** What is left of a request's headers for its handler. */
function leftOf(config: Parameters<typeof identityHeaders>[0], names: readonly string[]): readonly string[] {
  const headers = new Headers(names.map((name) => [name, "x"]));
  for (const header of identityHeaders(config, headers)) headers.delete(header);
  return [...headers.keys()];
}

const usual = ["Authorization", "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-Scopes"];

test("headers that name a user or hold a credential do not reach a handler, also where no proxy is trusted", () => {
  expect(leftOf(undefined, [...usual, "Accept", "X-Other-User"])).toEqual(["accept", "x-other-user"]);
});

test("headers that the cluster has chosen for its proxies do not reach a handler, nor do the usual ones", () => {
  const config = {
    verifier: new CertificateVerifier([], systemClock),
    usernameHeaders: ["X-Other-User"],
    uidHeaders: ["X-Other-Uid"],
    // As from a list with a blank after its comma.
    groupHeaders: ["X-Other-Group", " X-Third-Group"],
    extraHeaderPrefixes: ["X-Other-Extra-"],
    allowedNames: [],
  };
  const chosen = ["X-Other-User", "X-Other-Uid", "X-Other-Group", "X-Other-Extra-Scopes", "x-other-extra-a"];
  expect(leftOf(config, [...usual, ...chosen, "Accept", "X-Other"])).toEqual(["accept", "x-other"]);
});
