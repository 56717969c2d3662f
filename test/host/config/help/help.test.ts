import { describe, expect, test } from "bun:test";

import { Type } from "cloud-controller-host/sdk";

import { flagRows } from "../../../../host/config/flags/flags.ts";
import { flagLines, flagz } from "../../../../host/config/help/configz.ts";
import { help, type HelpOptions, reference, reportedVersion, version } from "../../../../host/config/help/help.ts";
import packageJson from "../../../../package.json" with { type: "json" };
import { run } from "../command-line.ts";

const offer: HelpOptions = {
  controllers: [
    { name: "cloud-node-controller", aliases: ["cloud-node"], enabledByDefault: true, configSchema: undefined },
    {
      name: "quota-controller",
      aliases: [],
      enabledByDefault: false,
      configSchema: Type.Object({ maxRetries: Type.Integer({ default: 3, description: "How often." }) }),
    },
  ],
  clouds: ["azure"],
};

describe("--help", () => {
  const text = help({ ...offer, width: 100 });

  test.each([40, 80, 132])("fits into %d columns, except for longer words and flags", (width) => {
    const long = help({ ...offer, width })
      .split("\n")
      .filter((line) => line.length > width && line.trim().includes(" ") && !/^ +(-\w, )?(--\w|cloud-)/.test(line));
    expect(long).toEqual([]);
  });
  test("shows every flag that is neither deprecated nor hidden, with its form and default", () => {
    for (const { name, flag } of flagRows) {
      const shown = new RegExp(`^ +(-\\w, )?--${name}( |$)`, "m").test(text);
      expect({ name, shown }).toEqual({ name, shown: flag.deprecated === undefined && !flag.hidden });
    }
    expect(text).toContain("--min-resync-period duration   (default 12h0m0s)\n");
    expect(text).toContain("-v, --v Level\n");
    expect(text).toContain("--profiling   (default true)\n");
    expect(text).toContain("--cluster-cidr string\n");
  });
  test("lists the available controllers and clouds, and the flags of plugins", () => {
    expect(text).toContain("Available: cloud-node-controller (cloud-node); quota-controller.");
    expect(text).toContain("Disabled by default: quota-controller.");
    expect(text).toContain("Available: azure.");
    expect(text).toContain(
      "Quota-controller flags:\n\n      --quota-controller-max-retries int   (default 3)\n        How often.",
    );
  });
  test("has the groups in the Go binaries' order", () => {
    const groups = [...text.matchAll(/^(\S.*) flags:$/gm)].map((match) => match[1]);
    expect(groups).toEqual([
      "Debugging",
      "Leader-migration",
      "Generic",
      "Node controller",
      "Service controller",
      "Node IPAM controller",
      "Webhook",
      "Webhook serving",
      "Secure serving",
      "Authentication",
      "Authorization",
      "Dynamic reloading",
      "Shadow",
      "Plugin",
      "Misc",
      "Node filtering",
      "Logs",
      "Record of writes",
      "Quota-controller",
      "Global",
    ]);
  });
});

test("the reference page has one well-formed row for every flag", () => {
  const rows = reference(offer)
    .split("\n")
    .filter((line) => /^\| (`-\w`, )?`--/.test(line));
  expect(rows).toHaveLength(flagRows.length + 1);
  for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(7);
  for (const { name } of flagRows) expect(rows.filter((row) => row.includes(`\`--${name}\` |`))).toHaveLength(1);
});

test("reports the package's version as text and JSON", () => {
  expect(version(false)).toBe(`cloud-controller-host v${packageJson.version}`);
  expect(JSON.parse(version(true))).toMatchObject({ version: `v${packageJson.version}`, bun: Bun.version });
  expect(reportedVersion(run([]).options)).toBe(`v${packageJson.version}`);
  expect(reportedVersion(run(["--version=v9.9.9"]).options)).toBe("v9.9.9");
});

test("/flagz and the log show every flag with its effective value", () => {
  const { settings, options } = run(["--controllers=*,-route"]);
  expect(flagz(settings, options).split("\n")).toContain("controllers=[*,-route]");
  expect(flagz(settings, options).split("\n")).toContain("min-resync-period=12h0m0s");
  expect(flagLines(settings)).toContain('FLAG: --controllers="[*,-route]"');
});
