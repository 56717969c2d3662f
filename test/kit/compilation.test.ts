import { expect, test } from "bun:test";

import { compilation } from "./compilation.ts";
import { HostProcess } from "./host-process.ts";

test("a host that a test starts compiles as the process of the test does, and a benchmark's as Bun does by itself", async () => {
  const printed = async (): Promise<unknown> => {
    const program = `console.log(JSON.stringify(process.env.BUN_JSC_useFTLJIT ?? "by itself"))`;
    await using host = new HostProcess({ flags: [], port: 0, program: [process.execPath, "-e", program] });
    await host.ended();
    return JSON.parse(host.stdout);
  };
  const before = process.env["BUN_JSC_useFTLJIT"];
  try {
    process.env["BUN_JSC_useFTLJIT"] = compilation.BUN_JSC_useFTLJIT;
    expect(await printed()).toBe("0");
    delete process.env["BUN_JSC_useFTLJIT"];
    expect(await printed()).toBe("by itself");
  } finally {
    if (before !== undefined) process.env["BUN_JSC_useFTLJIT"] = before;
  }
});
