import { expect, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest, type HttpClient } from "@azure/core-rest-pipeline";

import { onlyToLoginHosts } from "../../../../../plugins/azure-cloud/arm/credentials/login-hosts.ts";

/** True if a request to the URL is sent. */
async function isSent(authority: string, url: string): Promise<boolean> {
  const inner: HttpClient = {
    sendRequest: async (request) => ({ request, status: 200, headers: createHttpHeaders() }),
  };
  return onlyToLoginHosts(inner, authority)
    .sendRequest(createPipelineRequest({ url }))
    .then(
      () => true,
      () => false,
    );
}

test.each([
  ["https://login.microsoftonline.com/t/token", true],
  ["https://login.microsoftonline.us/t/token", true],
  ["https://westeurope.login.microsoft.com/t/token", true],
  ["http://login.microsoftonline.com/t/token", false],
  ["https://login.microsoftonline.com:444/t/token", false],
  ["https://login.microsoftonline.com.evil.example/t/token", false],
  ["https://evillogin.microsoft.com/t/token", false],
  ["https://login.microsoftonline.com@evil.example/t/token", false],
])("a secret for the login service of Azure goes to %s: %p", async (url, sent) => {
  expect(await isSent("https://login.microsoftonline.com/", url)).toBe(sent);
});

test.each([
  ["https://login.stack.example/t/token", true],
  ["https://login.microsoftonline.com/t/token", false],
  ["https://westeurope.login.microsoft.com/t/token", false],
])("a secret for a private login service goes to %s: %p", async (url, sent) => {
  expect(await isSent("https://login.stack.example/", url)).toBe(sent);
});
