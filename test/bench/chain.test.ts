import { expect, test } from "bun:test";

import { chainFigure } from "./chain.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";

/** Written as `GET loadBalancers/lb 0-10`. */
function request(text: string) {
  const [method = "", path = "", times = ""] = text.split(" ");
  const [begunMs = 0, endedMs = 0] = times.split("-").map(Number);
  return { method, path: `${group}/${path}`, begunMs, endedMs };
}

const chainOf = (...requests: readonly string[]) => chainFigure(requests.map(request), "chainSeconds", 2000);

test("the longest chain has one of the requests that were sent beside each other", () => {
  expect(
    chainOf("GET loadBalancers 0-10", "GET publicIPAddresses 1-12", "PUT loadBalancers/lb 12-20", "GET zones 2-30"),
  ).toEqual({ name: "chainSeconds", value: 4, unit: "s for 2 in sequence: GET publicIPAddresses, PUT loadBalancers" });
});

test("the longest chain counts equal requests in a row, however the log is ordered", () => {
  expect(chainOf("PUT virtualMachines/2 20-30", "GET loadBalancers 0-9", "PUT virtualMachines/1 10-20")).toEqual({
    name: "chainSeconds",
    value: 6,
    unit: "s for 3 in sequence: GET loadBalancers, PUT virtualMachines × 2",
  });
});

test("the longest chain passes by a longer request that nothing waited for", () => {
  expect(chainOf("GET zones 0-25", "GET a 0-10", "GET b 10-20", "GET c 20-30").value).toBe(6);
});

test("a chain without requests takes no time", () => {
  expect(chainOf().value).toBe(0);
});
